"""Between the official SDK's words and ours: answers, pieces of answers, and failures.

The law: no I/O, and `openai` is only looked at, never imported: what arrives here was made by it. The SDK's own accumulator
is not used: it parses the whole message again with every piece, and stumbles over what compatible servers leave out.
"""

from __future__ import annotations

import email.utils
import math
import time
from collections.abc import Mapping
from typing import Any, cast

from llm_sched.pipeline.exchange import STOP, TOOL_CALL, LlmResult, ProviderError, RetryableError, ToolCall

_RETRY_STATUS = {408, 409, 429}
"""Besides 5xx: what the official SDK itself would try again (`_should_retry` in openai-python)."""

INCOMPLETE = "incomplete"
"""Our `finish_reason` of a stream that ended without one: it was cut off somewhere."""


class Pieces:
    """The pieces of one streamed answer, put together."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._finish_reason = ""
        self._usage: dict[str, int] = {}

    def add(self, chunk: Any) -> str:  # noqa: ANN401 - servers leave out what the SDK's type promises
        """Take in one chunk and return its text."""
        self._usage = usage_of(chunk) or self._usage
        choices = getattr(chunk, "choices", None)
        if not choices:
            return ""
        choice = choices[0]
        self._finish_reason = getattr(choice, "finish_reason", None) or self._finish_reason
        delta = getattr(choice, "delta", None)
        for part in getattr(delta, "tool_calls", None) or ():
            self._add_call(part)
        text = getattr(delta, "content", None) or ""
        self._text.append(text)
        return text

    def _add_call(self, part: Any) -> None:  # noqa: ANN401 - likewise
        number = getattr(part, "index", None)
        call = self._calls.setdefault(len(self._calls) if number is None else number, {"id": "", "name": "", "arguments": ""})
        function = getattr(part, "function", None)
        call["id"] = getattr(part, "id", None) or call["id"]
        call["name"] = getattr(function, "name", None) or call["name"]
        call["arguments"] += getattr(function, "arguments", None) or ""

    def result(self, correlation_id: int) -> LlmResult:
        """The whole answer."""
        calls = tuple(ToolCall(**self._calls[number]) for number in sorted(self._calls))
        reason = self._finish_reason or INCOMPLETE
        return _result(correlation_id, "".join(self._text), calls, reason, self._usage)


def completion_result(completion: Any, correlation_id: int) -> LlmResult:  # noqa: ANN401 - servers leave out a lot
    """An answer that came as a whole.

    Raises:
        ProviderError: it is none.
    """
    choices: Any = getattr(completion, "choices", None)
    choice: Any = next(iter(choices), None) if hasattr(choices, "__iter__") else None
    message = getattr(choice, "message", None)
    if message is None:
        raise ProviderError("the provider's answer is no chat completion: it has no choice with a message")
    calls = tuple(
        ToolCall(id=call.id or "", name=call.function.name or "", arguments=call.function.arguments or "")
        for call in message.tool_calls or ()
        if getattr(call, "function", None)
    )
    reason = getattr(choice, "finish_reason", None) or ""
    return _result(correlation_id, message.content or "", calls, reason, usage_of(completion))


def _result(correlation_id: int, text: str, calls: tuple[ToolCall, ...], reason: str, usage: Mapping[str, int]) -> LlmResult:
    step = TOOL_CALL if calls else STOP
    return LlmResult(
        correlation_id=correlation_id, next_step=step, text=text, tool_calls=calls, usage=usage, finish_reason=reason
    )


def usage_of(answer: Any) -> dict[str, int]:  # noqa: ANN401 - servers leave out what the SDK's type promises
    """Token counts, as far as there are any."""
    usage = getattr(answer, "usage", None)
    counts = {name: getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def is_failure(error: Exception) -> bool:
    """Whether an exception says that the call failed, and not that the program is wrong.

    The SDK's own errors, bodies that are no JSON, and, from openai 2, raw errors of its HTTP library while a stream is read.
    """
    family = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__}
    return bool(family & {"openai.OpenAIError", "json.JSONDecodeError", "httpx.HTTPError", "httpx2.HTTPError"})


def failure(error: Exception, whom: str, hide: str) -> ProviderError:
    """Put a failure into one sentence: `whom` was called, and what it, or the SDK, said; `hide` is kept out of it."""
    status = getattr(error, "status_code", None)
    said = _said(error)
    said = said.replace(hide, "***") if hide else said
    if not isinstance(status, int):
        if type(error).__name__ == "JSONDecodeError" or type(error).__name__ == "APIResponseValidationError":
            return ProviderError(f"{whom} answered with something that is no JSON of a chat completion: {said}")
        return _no_answer(error, whom, said)
    advice = {401: "; is the key right?", 403: "; may this key do that?", 404: "; are base URL and model right?"}.get(
        status, ""
    )
    message = f"{whom} refused with status {status}: {said}{advice}"
    headers = getattr(getattr(error, "response", None), "headers", {})
    told = headers.get("x-should-retry")
    code = getattr(error, "code", None)
    may_pass = (status in _RETRY_STATUS or status >= 500) and code != "insufficient_quota"  # noqa: PLR2004 - HTTP's own
    if told == "true" or (may_pass and told != "false"):
        return RetryableError(message, status=status, retry_after_s=retry_after_s(headers))
    return ProviderError(message, status=status)


def _no_answer(error: Exception, whom: str, said: str) -> ProviderError:
    names = {kind.__name__ for kind in type(error).__mro__}
    if "APITimeoutError" in names or "TimeoutException" in names:
        return RetryableError(f"{whom} did not answer in time")
    if "APIConnectionError" in names or "TransportError" in names:
        reason = str(error.__cause__ or error) or said
        return RetryableError(f"{whom} cannot be reached, or hung up: {reason}")
    return ProviderError(f"{whom} failed: {said}")


def _said(error: Exception) -> str:
    body = getattr(error, "body", None)
    message = cast("Mapping[str, object]", body).get("message") if isinstance(body, Mapping) else None
    return str(message or error or type(error).__name__).strip()[:500]


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait that a response asks for, in `retry-after-ms` or `Retry-After` (RFC 9110, 10.2.3); else None."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name) or "") / unit
        except ValueError:
            continue
        return max(0.0, seconds) if math.isfinite(seconds) else None
    try:
        return max(0.0, email.utils.parsedate_to_datetime(headers.get("retry-after") or "").timestamp() - time.time())
    except ValueError:
        return None
