"""Add up what teams are charged, and what is left to the platform: charges and differences sum to the bill exactly."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent.wire.units import HOUR_MS
from analyzer.prices.charge_rows import Charge, rate_of

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
