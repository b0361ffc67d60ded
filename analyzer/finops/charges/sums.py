"""Add up what teams are charged, and what is left to the platform: charges and differences sum to the bill exactly."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent.wire.units import HOUR_MS
from analyzer.period import Period, local
from analyzer.prices.rows import Charge, rate_of
from analyzer.queries.statements import booked
from analyzer.states import words_of
from collector.store.session import Session

Bearer = Literal["team", "cost-centre"]


@dataclass(frozen=True, slots=True)
class HeldHour:
    """GPU time of one kind in one UTC hour: who held it (no team: nobody's, or unmapped), and what it cost.

    Of a correction, time and cost are differences.
    """

    team: str | None
    held: bool
    sku: str | None
    purchase_option: str | None
    hour: int
    milliseconds: int
    cost_micros: int | None
    cost_centre: str | None = None
    avoidable_micros: int | None = 0  # of its cost
    is_closed: bool = False  # whether its charge is `closed_micros`, whatever the rates say now
    closed_micros: int | None = None


@dataclass(frozen=True, slots=True)
class Charged:
    """What one bearer held, what that cost, and what it is charged; None where a price is not known.

    The bearer is a team, or a cost centre: None is what maps to none, or with `held` False what nobody held, which is
    charged to nobody. A team without a charge rate is charged what its GPUs cost. By cost centre, `team` is one that
    has none. `corrects` is the month of the hours of which the amounts are corrections, None of the period's own.
    """

    bearer: str | None
    held: bool
    milliseconds: int
    cost_micros: int | None
    charged_micros: int | None
    avoidable_micros: int | None = 0  # of the cost
    team: str | None = None
    corrects: str | None = None

    @property
    def moves(self) -> bool:
        """Whether any amount is other than 0, or not known: corrections that took one another back move nothing."""
        return any(amount != 0 for amount in (self.milliseconds, self.cost_micros, self.charged_micros))

    @property
    def difference_micros(self) -> int | None:
        """What the platform has to bear of it, or, below 0, gets beyond what it cost."""
        if self.cost_micros is None or self.charged_micros is None:
            return None
        return self.cost_micros - self.charged_micros


def charges(
    held: Iterable[HeldHour], rates: Sequence[Charge], by: Bearer = "team", corrects: str | None = None
) -> tuple[Charged, ...]:
    """Return a line a team (or a cost centre), then what maps to none, then what nobody held.

    By cost centre, each team that has none keeps a line of its own: somebody must say whose bill it is. Each hour of
    each kind is rounded to the millionth by itself, so that hours, days and weeks sum to one another.
    """
    sums: dict[tuple[str | None, str | None, bool], Charged] = {}
    for one in held:
        bearer = one.team if by == "team" else one.cost_centre
        team = one.team if bearer is None and by != "team" else None
        before = sums.get((bearer, team, one.held), Charged(bearer, one.held, 0, 0, 0, 0, team, corrects))
        sums[bearer, team, one.held] = replace(
            before,
            milliseconds=before.milliseconds + one.milliseconds,
            cost_micros=_sum(before.cost_micros, one.cost_micros),
            charged_micros=_sum(before.charged_micros, charged_micros(one, rates)),
            avoidable_micros=_sum(before.avoidable_micros, one.avoidable_micros),
        )
    return tuple(sorted(sums.values(), key=_place))


def _place(one: Charged) -> tuple[bool, bool, str, bool, str]:
    return not one.held, one.bearer is None, one.bearer or "", one.team is None, one.team or ""


def charged_micros(held: HeldHour, rates: Sequence[Charge]) -> int | None:
    """Return what this GPU time is charged, to the nearest millionth; None where no rate and no price is known."""
    if not held.held:
        return 0
    if held.is_closed:
        return held.closed_micros
    rate = rate_of(rates, held.team, held.sku, held.purchase_option, held.hour)
    if rate is None:
        return held.cost_micros
    return (held.milliseconds * rate.micros_per_gpu_hour * 2 + HOUR_MS) // (2 * HOUR_MS)


def _sum(before: int | None, more: int | None) -> int | None:
    return None if before is None or more is None else before + more


_AVOIDABLE = words_of("avoidable")
# Cost is null where any part of it has no price.
_SUMS = """
SELECT team, l.run_id IS NOT NULL AS held, l.sku, purchase_option, hour, sum(milliseconds)::BIGINT AS ms,
    CASE WHEN count(cost_micros) = count(*) THEN sum(cost_micros)::HUGEINT END AS cost, cost_centre,
    CASE WHEN count(cost_micros) = count(*) THEN coalesce(sum(cost_micros)
        FILTER (list_contains($avoidable::VARCHAR[], state || '/' || coalesce(cause, ''))), 0)::HUGEINT END AS avoidable
"""
# In closed hours a row of closed_charges is what is charged, and where there is none, the cost is.
_HELD = f"""
WITH held AS ({_SUMS} FROM {booked("ledger")} l WHERE hour >= $start AND hour < $end GROUP BY ALL)
SELECT h.*, c.hour IS NOT NULL, coalesce(q.charged_micros, h.cost) FROM held h
LEFT JOIN (SELECT hour FROM closed_hours WHERE hour >= $start AND hour < $end) c ON c.hour = h.hour
LEFT JOIN (FROM closed_charges WHERE hour >= $start AND hour < $end) q ON q.hour = h.hour AND h.held
    AND q.team IS NOT DISTINCT FROM h.team AND q.cost_centre IS NOT DISTINCT FROM h.cost_centre
    AND q.sku IS NOT DISTINCT FROM h.sku AND q.purchase_option IS NOT DISTINCT FROM h.purchase_option
"""
# What an adjustment of a closed hour moved of a charge stands in charge_corrections.
_CORRECTED = f"""
WITH held AS (
    {_SUMS}, recorded_at FROM {booked("adjustments")} l WHERE recorded_at >= $start AND recorded_at < $end GROUP BY ALL
)
SELECT h.* EXCLUDE (recorded_at), c.hour IS NOT NULL, CASE WHEN h.cost IS NOT NULL THEN 0 END FROM held h
LEFT JOIN closed_hours c ON c.hour = h.hour
UNION ALL
SELECT team, true, sku, purchase_option, hour, 0, 0, cost_centre, 0, true, sum(charged_micros)::HUGEINT
FROM charge_corrections WHERE recorded_at >= $start AND recorded_at < $end GROUP BY ALL
"""


def read_held(session: Session, period: Period) -> list[HeldHour]:
    """Return the GPU time of a period by team, cost centre, kind and hour; cost is None where any has no price."""
    rows = session.rows(f"{_HELD} ORDER BY ALL", _span(period))
    return [HeldHour(*row) for row in rows]


def read_corrections(session: Session, period: Period) -> dict[str, list[HeldHour]]:
    """Return what was learned in a period of hours that had closed, by the month of the hour; amounts are differences.

    As in a FOCUS file: a closed month's file stays, and what is learned of it later stands in the month it is learned.
    """
    rows = session.rows(f"{_CORRECTED} ORDER BY ALL", _span(period))
    found: dict[str, list[HeldHour]] = {}
    for row in rows:
        one = HeldHour(*row)
        found.setdefault(f"{local(one.hour, period.timezone):%Y-%m}", []).append(one)
    return found


def charged(session: Session, period: Period, rates: Sequence[Charge]) -> tuple[Charged, ...]:
    """Return what teams are charged; nothing where no rate holds, and none held in a closed hour, gone since or not."""
    (was_charged,) = session.row(
        "SELECT EXISTS (FROM closed_charges WHERE hour >= $start AND hour < $end)",
        {"start": period.start, "end": period.end},
    )
    return charges(read_held(session, period), rates) if rates or was_charged else ()


def _span(period: Period) -> dict[str, object]:
    return {"start": period.start, "end": period.end, "avoidable": _AVOIDABLE}
