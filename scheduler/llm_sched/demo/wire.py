"""The OpenAI-shaped bytes that the stub provider reads and writes."""

# Law: values in, bytes out. No socket, no clock, no counting; ids and times are arguments.
# Shapes follow the OpenAI API reference (chat completion object, chunk object, error object).

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from http import HTTPStatus

REPLY = ("One ", "pace ", "for ", "every ", "process ", "on ", "this ", "machine.")
"""The answer to everything, in tokens."""

LAST_CHUNK = b"0\r\n\r\n"


class StreamOptions(msgspec.Struct, frozen=True):
    """The part of `stream_options` that the stub understands."""

    include_usage: bool = False


class ChatRequest(msgspec.Struct, frozen=True):
    """The part of a chat completion request that the stub understands; the rest is ignored."""

    model: str
    messages: list[dict[str, Any]]
    stream: bool | None = None
    stream_options: StreamOptions | None = None


def parse_chat(body: bytes) -> ChatRequest:
    """Read a request body.

    Raises:
        msgspec.MsgspecError: it is not JSON, or not of this shape (its message says where).
    """
    return msgspec.json.decode(body, type=ChatRequest)


def completion(request: ChatRequest, answer_id: str, created: int) -> bytes:
    """The body of an answer in one piece; `created` is in seconds of the Unix epoch."""
    message = {"role": "assistant", "content": "".join(REPLY), "refusal": None}
    return msgspec.json.encode(
        {
            "id": answer_id,
            "object": "chat.completion",
            "created": created,
            "model": request.model,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
            "usage": _usage(request),
        }
    )


def pieces(request: ChatRequest, answer_id: str, created: int) -> list[bytes]:
    """A streamed answer as server-sent events: one piece a token, and a last one with all that ends it.

    Clients stop reading at the finish reason or at `[DONE]`, both before the end of the HTTP body. They are in one
    piece, so that no client can be done before the provider has begun to send the end.
    """
    head = {"id": answer_id, "object": "chat.completion.chunk", "created": created, "model": request.model}
    deltas: list[dict[str, str]] = [{"role": "assistant", "content": ""}, *({"content": token} for token in REPLY)]
    tokens = [_event(head | {"choices": [_choice(delta, None)]}) for delta in deltas]
    last = _event(head | {"choices": [_choice({}, "stop")]})
    if request.stream_options is not None and request.stream_options.include_usage:
        last += _event(head | {"choices": [], "usage": _usage(request)})
    return [*tokens, last + b"data: [DONE]\n\n"]


def models(names: tuple[str, ...]) -> bytes:
    """The body of the list of models."""
    rows = [{"id": name, "object": "model", "created": 0, "owned_by": "llm-sched-demo"} for name in names]
    return msgspec.json.encode({"object": "list", "data": rows})


def error(message: str, kind: str, code: str | None) -> bytes:
    """The body of an error answer."""
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def refusal(limit: int) -> bytes:
    """The body of a 429, for one request too many at once."""
    text = f"Rate limit reached: this provider serves {limit} requests at once. Please try again later."
    return error(text, "requests", "rate_limit_exceeded")


def head(status: HTTPStatus, headers: Mapping[str, str]) -> bytes:
    """The status line and headers of an answer, with the empty line behind them."""
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("ascii")


def chunk(data: bytes) -> bytes:
    """One chunk of a body in chunked transfer coding (RFC 9112, 7.1)."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def _choice(delta: dict[str, str], finish_reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _usage(request: ChatRequest) -> dict[str, int]:
    asked = sum(len(str(message.get("content", "")).split()) for message in request.messages)
    return {"prompt_tokens": asked, "completion_tokens": len(REPLY), "total_tokens": asked + len(REPLY)}
