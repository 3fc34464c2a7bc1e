"""What `/` understands: words or a regular expression, `!` in front for all but these. Case does not matter."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from llm_sched_tui.view_model.tables import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

R = TypeVar("R", bound=Record)


@lru_cache(maxsize=32)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a test for a filter's text; what is no regular expression is looked for as it stands."""
    inverse = pattern.startswith("!")
    wanted = pattern[inverse:].casefold()
    try:
        search = re.compile(pattern[inverse:], re.IGNORECASE).search
    except re.error:
        search = re.compile(re.escape(pattern[inverse:]), re.IGNORECASE).search

    def matches(text: str) -> bool:
        return (wanted in text.casefold() or bool(search(text))) is not inverse

    return matches if wanted else lambda _text: True


def filtered(records: Iterable[R], pattern: str) -> list[R]:
    """The records that a filter lets through."""
    if not pattern:
        return list(records)
    matches = matcher(pattern)
    return [record for record in records if matches(record.words)]
