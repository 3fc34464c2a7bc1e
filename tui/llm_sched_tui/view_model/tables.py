"""Tables as values: records, columns that know how to show one, and which columns fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from llm_sched_tui.view_model.values import Order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_sched_tui.view_model.cells import Cell

GAP = 2
"""Columns of space between two columns."""


class Record(Protocol):
    """A row's facts. Rows are told apart by `key`, whatever their place."""

    @property
    def key(self) -> str:
        """Which thing this is."""
        ...

    @property
    def bucket(self) -> str:
        """The bucket that one gets to from here; empty = none."""
        ...

    @property
    def words(self) -> str:
        """What a filter looks at, and what is copied."""
        ...


R = TypeVar("R", bound=Record)
C_contra = TypeVar("C_contra", bound=Record, contravariant=True)


@dataclass(frozen=True, slots=True)
class Column(Generic[C_contra]):
    """One column.

    Args:
        key: its name in an `Order`.
        title: what stands above it.
        cell: shows a record.
        least: the narrowest useful width.
        most: the widest useful width.
        rank: the higher, the sooner it is left out where there is no room; 0 = never.
        right: whether the title is aligned right.
        order: what it is sorted by; None = it cannot be.
        falling: whether the largest come first when it is chosen.
    """

    key: str
    title: str
    cell: Callable[[C_contra], Cell]
    least: int
    most: int = 0
    rank: int = 0
    right: bool = False
    order: Callable[[C_contra], Any] | None = None
    falling: bool = False


def figures(
    key: str, title: str, cell: Callable[[C_contra], Cell], width: int, rank: int, order: Callable[[C_contra], Any]
) -> Column[C_contra]:
    """A column of numbers of one width, the largest first when it is sorted by."""
    return Column(key, title, cell, width, rank=rank, right=True, order=order, falling=True)


@dataclass(frozen=True, slots=True)
class Table(Generic[R]):
    """Sorted records and their columns; `note` says why there are none."""

    columns: tuple[Column[R], ...]
    records: tuple[R, ...]
    order: Order
    note: str = ""


def fit(columns: Sequence[Column[Any]], width: int) -> tuple[tuple[int, int], ...]:
    """Choose the columns for a width: (index, width) of each, in order.

    The columns of the highest rank go first when there is no room. What is left over goes to those that are never left
    out, then in equal parts to the others, as far as they can use it.
    """
    chosen = list(range(len(columns)))
    while _needed(columns, chosen) > width and any(columns[index].rank for index in chosen):
        chosen.remove(max(chosen, key=lambda index: (columns[index].rank, index)))
    widths = {index: columns[index].least for index in chosen}
    spare = width - _needed(columns, chosen)
    for index in chosen:
        if spare < 0:
            cut = min(-spare, widths[index] - 1)
            widths[index] -= cut
            spare += cut
    growing = sorted(
        (index for index in chosen if columns[index].most > columns[index].least),
        key=lambda index: (columns[index].rank > 0, columns[index].most - columns[index].least),
    )
    for number, index in enumerate(growing):
        part = spare if not columns[index].rank else spare // (len(growing) - number)
        grow = max(0, min(part, columns[index].most - columns[index].least))
        widths[index] += grow
        spare -= grow
    return tuple(widths.items())


def _needed(columns: Sequence[Column[Any]], chosen: list[int]) -> int:
    return sum(columns[index].least + GAP for index in chosen) - GAP


def arranged(records: Sequence[R], columns: Sequence[Column[R]], order: Order) -> tuple[R, ...]:
    """Sort records; equal ones stay in the order of their keys, so that rows do not jump."""
    column = next((column for column in columns if column.key == order.column), None)
    stable = sorted(records, key=lambda record: record.key)
    if column is None or column.order is None:
        return tuple(stable)
    return tuple(sorted(stable, key=column.order, reverse=order.descending))


def next_order(columns: Sequence[Column[Any]], order: Order) -> Order:
    """Sort by the next column that can be sorted by."""
    able = [column for column in columns if column.order is not None]
    if not able:
        return order
    keys = [column.key for column in able]
    chosen = able[(keys.index(order.column) + 1) % len(able) if order.column in keys else 0]
    return Order(chosen.key, chosen.falling)


def order_by(columns: Sequence[Column[Any]], order: Order, key: str) -> Order:
    """Sort by a column that was pointed at; once more turns it round."""
    if order.column == key:
        return Order(key, not order.descending)
    column = next((column for column in columns if column.key == key and column.order is not None), None)
    return Order(key, column.falling) if column else order
