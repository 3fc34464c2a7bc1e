"""Columns that fit, order, filters, and lines for any width."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tui_support import CONTENTION, model, reading, snapshot

from llm_sched_tui.view_model import bars
from llm_sched_tui.view_model.cells import Chunk, Words
from llm_sched_tui.view_model.filters import filtered, matcher
from llm_sched_tui.view_model.tables import GAP, Column, arranged, fit, next_order, order_by
from llm_sched_tui.view_model.values import Order, Query


@dataclass(frozen=True)
class Fruit:
    """A record."""

    key: str
    weight: int
    bucket: str = ""

    @property
    def words(self) -> str:
        """What a filter looks at."""
        return f"{self.key} {self.weight}"


FRUIT = (Fruit("plum", 3), Fruit("apple", 3), Fruit("Quince (old)", 9))
NAME: Column[Fruit] = Column("name", "name", lambda row: Words(row.key), 5, 20, order=lambda row: row.key.casefold())
WEIGHT: Column[Fruit] = Column(
    "weight", "g", lambda row: Words(f"{row.weight}"), 3, 0, 1, order=lambda row: row.weight, falling=True
)
PICTURE: Column[Fruit] = Column("picture", "", lambda row: Words("*" * row.weight), 10, 100, 2)
OTHER: Column[Fruit] = Column("other", "", lambda row: Words("*" * row.weight), 10, 100, 3)
COLUMNS = (NAME, WEIGHT, PICTURE, OTHER)


@given(st.integers(1, 300))
def test_columns_fit_any_width(width: int) -> None:
    """They never need more than there is, and the one that may not be left out is there."""
    fitted = fit(COLUMNS, width)
    assert sum(wide + GAP for _, wide in fitted) - GAP <= max(width, 1)
    assert fitted[0][0] == 0
    assert [index for index, _ in fitted] == list(range(len(fitted)))


def test_what_matters_least_goes_first() -> None:
    """By rank."""
    assert [len(fit(COLUMNS, width)) for width in (34, 33, 22, 21, 10, 9)] == [4, 3, 3, 2, 2, 1]


def test_what_is_left_over_is_shared() -> None:
    """The name first, then the elastic ones in equal parts."""
    widths = dict(fit(COLUMNS, 100))
    assert widths[0] == 20
    assert abs(widths[2] - widths[3]) <= 1
    assert sum(widths.values()) + 3 * GAP == 100


def test_equal_records_stay_in_the_order_of_their_keys() -> None:
    """So rows do not jump."""
    assert [row.key for row in arranged(FRUIT, COLUMNS, Order("weight"))] == ["apple", "plum", "Quince (old)"]
    assert arranged(FRUIT, COLUMNS, Order("weight", descending=True))[0].key == "Quince (old)"
    assert [row.key for row in arranged(FRUIT, COLUMNS, Order("no such"))] == ["Quince (old)", "apple", "plum"]


def test_sorting_goes_round_and_turns() -> None:
    """By the next column that can be sorted by; by the same again, the other way round."""
    assert next_order(COLUMNS, Order("name")) == Order("weight", descending=True)
    assert next_order(COLUMNS, Order("weight")) == Order("name")
    assert next_order(COLUMNS, Order("elsewhere")) == Order("name")
    assert next_order((PICTURE,), Order("x")) == Order("x")
    assert order_by(COLUMNS, Order("name"), "name") == Order("name", descending=True)
    assert order_by(COLUMNS, Order("name"), "weight") == Order("weight", descending=True)
    assert order_by(COLUMNS, Order("name"), "picture") == Order("name")


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("", 3),
        ("PLUM", 1),
        ("!plum", 2),
        ("^(plum|apple)", 2),
        ("(old)", 1),
        ("(old", 1),
        ("!", 3),
        ("nothing", 0),
        ("apple 3", 1),
    ],
)
def test_filters(pattern: str, left: int) -> None:
    """Words, regular expressions, the inverse; what is no expression is taken as it stands."""
    assert len(filtered(FRUIT, pattern)) == left


def test_a_name_with_special_characters_is_found_as_it_stands() -> None:
    """Model names have dots and brackets."""
    assert matcher("gpt-4.1[mini]")("openai/gpt-4.1[mini]")


@pytest.mark.parametrize("width", [1, 10, 20, 50, 80, 120, 160, 300])
def test_head_tabs_and_keys_fit_any_width(width: int) -> None:
    """And at 50 columns the age and the sums are still there."""
    known = model()
    known.take(reading(snapshot(*CONTENTION)))
    view = known.view(Query(filters={"overview": "gpt"}, user="ann", paused=True), 0.0, 0.0)
    assert view is not None
    for line in (bars.head(view, width), bars.tabs(view.query, width), bars.keys(width)):
        text = "".join(part for chunk in line for part, _ in chunk.spans)
        assert len(text) <= width or width < 60, text
    head = "".join(part for chunk in bars.head(view, 80) for part, _ in chunk.spans)
    assert "paused" in head
    assert "3 in flight" in head
    assert "4 waiting" in head


def test_the_path_is_cut_before_it_is_left_out() -> None:
    """Its end tells more."""
    known = model()
    known.take(reading(snapshot(*CONTENTION)))
    view = known.view(Query(), 0.0, 0.0)
    assert view is not None
    heads = ["".join(part for chunk in bars.head(view, width) for part, _ in chunk.spans) for width in range(40, 120)]
    assert any("…" in head and "edger.json" in head for head in heads)
    assert "~/ledger.json" in heads[-1]


def test_facts_flow() -> None:
    """As many lines as they need."""
    chunks = [Chunk((("x" * 8, "plain"),)) for _ in range(5)]
    assert [len(bars.flow(chunks, width)) for width in (100, 40, 12)] == [1, 2, 5]
