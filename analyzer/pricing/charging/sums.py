"""Add up what teams are charged, and what is left to the platform: charges and differences sum to the bill exactly."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from analyzer.pricing.charging.rows import Charge, rate_of

MS_PER_HOUR = 3_600_000
By = Literal["team", "cost_centre"]


@dataclass(frozen=True, slots=True)
class Held:
    """GPU time of one kind in one UTC hour: who held it (no team: nobody's, or unmapped), and what it cost."""

    team: str | None
    held: bool
    sku: str | None
    purchase_option: str | None
    hour: int
    milliseconds: int
    cost_micros: int | None
    cost_centre: str | None = None
    avoidable_micros: int | None = 0  # of its cost


@dataclass(frozen=True, slots=True)
class Charged:
    """What one bearer held, what that cost, and what it is charged; None where a price is not known.

    The bearer is a team, or a cost centre: None is what maps to none, or with `held` False what nobody held, which is
    charged to nobody. A team without a charge rate is charged what its GPUs cost.
    """

    bearer: str | None
    held: bool
    milliseconds: int
    cost_micros: int | None
    charged_micros: int | None
    avoidable_micros: int | None = 0  # of the cost

    @property
    def difference_micros(self) -> int | None:
        """What the platform has to bear of it, or, below 0, gets beyond what it cost."""
        if self.cost_micros is None or self.charged_micros is None:
            return None
        return self.cost_micros - self.charged_micros


def charges(held: Iterable[Held], rates: Sequence[Charge], by: By = "team") -> tuple[Charged, ...]:
    """Return a line a team (or a cost centre), then one for what maps to none and one for what nobody held.

    Each hour of each kind is rounded to the millionth by itself, so that hours, days and weeks sum to one another.
    """
    sums: dict[tuple[str | None, bool], Charged] = {}
    for one in held:
        key = (one.team if by == "team" else one.cost_centre, one.held)
        before = sums.get(key, Charged(*key, 0, 0, 0))
        sums[key] = Charged(
            *key,
            before.milliseconds + one.milliseconds,
            _sum(before.cost_micros, one.cost_micros),
            _sum(before.charged_micros, charged_micros(one, rates)),
            _sum(before.avoidable_micros, one.avoidable_micros),
        )
    return tuple(sorted(sums.values(), key=lambda one: (not one.held, one.bearer is None, one.bearer or "")))


def charged_micros(held: Held, rates: Sequence[Charge]) -> int | None:
    """Return what this GPU time is charged, to the nearest millionth; None where no rate and no price is known."""
    if not held.held:
        return 0
    rate = rate_of(rates, held.team, held.sku, held.purchase_option, held.hour)
    if rate is None:
        return held.cost_micros
    return (held.milliseconds * rate.micros_per_gpu_hour * 2 + MS_PER_HOUR) // (2 * MS_PER_HOUR)


def _sum(before: int | None, more: int | None) -> int | None:
    return None if before is None or more is None else before + more
