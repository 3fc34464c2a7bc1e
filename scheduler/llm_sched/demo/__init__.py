"""The `llm-sched demo`: a stub provider, worker processes that call it, and what to see of it.

Nothing here is imported by `import llm_sched`; the `demo` command imports it when it runs.
`llm_sched.demo.provider.StubProvider` may be used on its own, as an independent witness.
"""
