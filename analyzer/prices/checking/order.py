"""What is to be asked of rows beside one another: jumps, spot above on demand, an end that nothing follows. Pure."""

from collections.abc import Iterable
from datetime import date, timedelta
from itertools import pairwise

from agent.wire.units import HOUR_US
from analyzer.prices.checking.complaint import Complaint, day_of, midnight_us
from analyzer.prices.derived.spot import Spot
from analyzer.prices.money import dollars
from analyzer.prices.price_book import PriceBook
from analyzer.prices.row_names import name_of
from analyzer.prices.site import Derived, PriceRow
from analyzer.text.words import counted

# Ours: a new contract seldom moves a price by half, and a node's figure taken for a GPU's is eight times too much.
_JUMP_PERMILLE = 500
_ENDING_DAYS = 30  # so long it takes to write the next row, or to ask for it

_Row = PriceRow | Derived


def order_faults(book: PriceBook, today: date) -> list[Complaint]:
    """Return what is odd about rows that stand beside or after one another."""
    return [*_jumps(book), *_dear_spots(book), *_endings(book, today)]


def _jumps(book: PriceBook) -> Iterable[Complaint]:
    """Yield each change by more than half from one row to the next of the same thing; a market is no such change."""
    same: dict[object, list[_Row]] = {}
    for row in (*book.rows, *book.derived):
        if not isinstance(row, Spot):
            same.setdefault((row.subject, book.regions.wanted(row)), []).append(row)
    for rows in same.values():
        for earlier, later in pairwise(sorted(rows, key=lambda row: row.starts_at)):
            before = None if earlier.ends_at is None else earlier.micros_at(earlier.ends_at - HOUR_US)
            after = later.micros_at(later.starts_at)
            if before and after is not None and abs(after - before) * 1000 > _JUMP_PERMILLE * before:
                yield Complaint(
                    "suspicious",
                    f"{name_of(later, after)}: {after / before:.2f} times the {dollars(before)} before"
                    f" {day_of(later.starts_at)}; is it per GPU and per hour, as the one before?",
                )


def _dear_spots(book: PriceBook) -> Iterable[Complaint]:
    """Yield spot rows that at times cost more than the same GPU on demand: nobody would buy them then."""
    for row in (*book.rows, *book.derived):
        if row.subject[1] == "spot":
            dear = [at for at in _moments(row, book) if _is_dear(row, book, at)]
            if dear:
                hours = counted(len(dear), "hour") if isinstance(row, Spot) else f"from {day_of(dear[0])} on"
                yield Complaint(
                    "suspicious",
                    f"{name_of(row, row.micros_at(dear[0]))}: more than on demand"
                    f" {'in ' if isinstance(row, Spot) else ''}{hours}; is it of one GPU, and of the same place?",
                )


def _moments(row: _Row, book: PriceBook) -> Iterable[int]:
    if isinstance(row, Spot):
        return row.hours
    others = (other.starts_at for other in (*book.rows, *book.derived) if row.covers(other.starts_at))
    return sorted({row.starts_at, *others})


def _is_dear(row: _Row, book: PriceBook, at_us: int) -> bool:
    sku, _, node_group = row.subject
    asked = book.row(sku, "on_demand", at_us, node_group, book.regions.standing(row))
    mine, theirs = row.micros_at(at_us), None if asked is None else asked.micros_at(at_us)
    is_own = asked is not None and asked.subject[1] == "on_demand"
    return is_own and mine is not None and theirs is not None and mine > theirs


def _endings(book: PriceBook, today: date) -> Iterable[Complaint]:
    start, end = midnight_us(today), midnight_us(today + timedelta(days=_ENDING_DAYS))
    for row in (*book.rows, *book.derived):
        ends_at = row.ends_at
        if ends_at is not None and start < ends_at <= end and book.row_in_place_of(row, ends_at) is None:
            yield Complaint(
                "ending",
                f"{name_of(row, row.micros_at(ends_at - HOUR_US))}: ends {day_of(ends_at)}, and no row follows: such"
                " GPUs cost unknown from then on; write the next one",
            )
