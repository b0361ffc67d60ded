"""The tables of GPU time and money behind page one: by run and by cause, each adding up to what page one has."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from agent.wire.units import HOUR_MS, MICROS
from analyzer.capacity.profile.evidence import days_words, named, short_id
from analyzer.capacity.profile.facts import CapacityProfile, StateHours
from analyzer.ledger.breakdown import column_like, rounded
from analyzer.queries.ledger_query import Breakdown, Unpriced, fold
from analyzer.states import CLASSES, booking
from analyzer.text.rounding import apportion, nearest
from analyzer.text.words import UNKNOWN, amount, decimal, gpu_hours, hours_decimals, money_decimals, plain, symbol

_Cells = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its title, its columns (those after the first `words` are figures), its rows, and a line below."""

    title: str
    head: _Cells
    rows: tuple[_Cells, ...]
    words: int = 1
    note: str = ""
    total: _Cells | None = None


def breakdown_of(booked: Iterable[StateHours]) -> Breakdown:
    """Return what was booked, as reports read it."""
    parts = tuple(booked)
    unpriced = sum(each.milliseconds for each in parts if each.micros is None)
    counted = [(each.state, each.cause, each.milliseconds, each.micros) for each in parts]
    return Breakdown(fold(counted), (Unpriced(None, unpriced),) if unpriced else ())


def runs_table(profile: CapacityProfile) -> Table:
    """Return the representative runs with what each held and cost."""
    sign = symbol(profile.currency).strip()
    times = [run.milliseconds for run in profile.runs]
    decimals = hours_decimals(sum(times))
    hours = column_like(nearest(sum(times) * 10**decimals, HOUR_MS), times, HOUR_MS, decimals)
    paid, together = _paid([run.micros for run in profile.runs])
    rows = tuple(
        (
            named(run),
            short_id(run.run_id),
            plain(run.stage or UNKNOWN),
            days_words(run.started_at, run.ended_at, profile.timezone) if run.ended_at else "still running",
            f"{run.gpus:,} {plain(run.sku or 'GPUs')}",
            hour,
            cost,
        )
        for run, hour, cost in zip(profile.runs, hours, paid, strict=True)
    )
    total = (*("total", "", "", "", ""), gpu_hours(sum(times), decimals), together)
    head = ("run", "id", "stage", "days", "GPUs", "GPU-hours", sign)
    return Table("Representative runs", head, rows, 5, profile.chosen and f"Chosen: {plain(profile.chosen)}.", total)


def causes_table(profile: CapacityProfile) -> Table:
    """Return the labels of page one by cause: each label's causes add up to the figure that page one has."""
    whole = breakdown_of(profile.booked)
    columns = rounded(whole)
    rows: list[_Cells] = []
    for place, group in enumerate(columns.groups):
        for member, entry in enumerate(group):
            parts = [
                each
                for each in profile.booked
                if (found := booking(each.state, each.cause)).klass == entry.klass and found.label == entry.label
            ]
            hours = _members(
                columns.hours.members[place][member],
                [p.milliseconds for p in parts],
                HOUR_MS,
                columns.hours.decimals,
            )
            if columns.money is not None:
                costs = [part.micros or 0 for part in parts]
                paid = _members(columns.money.members[place][member], costs, MICROS, columns.money.decimals)
            else:
                paid = [UNKNOWN] * len(parts)
            rows += [
                (entry.klass, entry.label, booking(part.state, part.cause).cause_label or UNKNOWN, hour, cost)
                for part, hour, cost in zip(parts, hours, paid, strict=True)
            ]
    ordered = [row for klass in CLASSES for row in rows if row[0] == klass]
    shown = tuple(
        (row[0] if first else "", *row[1:])
        for _, group_ in groupby(ordered, key=lambda row: row[0])
        for first, row in _marked(list(group_))
    )
    total = ("total", "", "", decimal(columns.hours.total, columns.hours.decimals), _total_money(columns))
    return Table(
        "Where it went, by cause",
        ("class", "state", "cause", "GPU-hours", symbol(profile.currency).strip()),
        shown,
        3,
        "",
        total,
    )


def _paid(costs: list[int | None]) -> tuple[list[str], str]:
    """Return a column of money that adds up, and its sum; where one is unknown each stands for itself."""
    known = [cost for cost in costs if cost is not None]
    decimals = money_decimals(sum(known))
    if len(known) < len(costs):
        return [UNKNOWN if cost is None else amount(cost, decimals) for cost in costs], UNKNOWN
    whole = nearest(sum(known) * 10**decimals, MICROS)
    return column_like(whole, known, MICROS, decimals), decimal(whole, decimals)


def _total_money(columns: object) -> str:
    paid = getattr(columns, "money", None)
    return decimal(paid.total, paid.decimals) if paid is not None else UNKNOWN


def _marked(rows: list[_Cells]) -> list[tuple[bool, _Cells]]:
    return [(place == 0, row) for place, row in enumerate(rows)]


def _members(total: int, exact: list[int], denominator: int, decimals: int) -> list[str]:
    return [
        decimal(units, decimals) for units in apportion(total, [each * 10**decimals for each in exact], denominator)
    ]
