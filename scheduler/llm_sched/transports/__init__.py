"""Slots for any client that speaks HTTP through `httpx` or `httpx2`: one transport paces it in one line.

    from llm_sched.transports.httpx2 import PacedTransport
    client = openai.OpenAI(http_client=openai.DefaultHttpxClient(transport=PacedTransport()))

`llm_sched.transports.httpx` is for `httpx` (openai 2 and many other SDKs), `llm_sched.transports.httpx2` for `httpx2`
(openai 3). Importing one loads that library and not the other.
"""
