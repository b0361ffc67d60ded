"""How many GPUs to reserve, so that what is asked for costs least: the rest on demand, what may be interrupted on spot.

A reserved GPU is paid for whether it is used or not; one more pays where it would be wanted for a larger share of the
hours than its price is of the one on demand (the newsvendor's rule). Pure; prices in millionths for a GPU-hour.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire.units import HOUR_MS

_STEPS_MOST = 400  # sizes that are tried; fleets of more GPUs are tried in larger steps
_WEEK_HOURS = 168


@dataclass(frozen=True, slots=True)
class Rates:
    """What a GPU-hour costs by way of buying; None: nobody has said a price, and that way is left out."""

    reserved: int | None
    on_demand: int | None
    spot: int | None


@dataclass(frozen=True, slots=True)
class Mix:
    """A number of GPUs held for good beside those that are owned, and what a week of it costs in millionths.

    `short_hours` is how many hours a week more is wanted than is held, `short_gpus` how many GPUs more at the most.
    """

    held_gpus: int
    micros_a_week: int
    on_demand_gpu_hours: int
    spot_gpu_hours: int
    short_hours: int
    short_gpus: int


def best_mix(firm: Sequence[int], loose: Sequence[int], owned_gpus: int, rates: Rates) -> Mix | None:
    """Return the cheapest mix; None where prices are missing that it needs: of reserving and of buying on demand.

    `firm` and `loose` are GPU milliseconds wanted in each hour, `loose` of what may be interrupted. Owned GPUs are
    there at no further cost.
    """
    if rates.reserved is None or rates.on_demand is None or not firm:
        return None
    most = max(-(-(a + b) // HOUR_MS) for a, b in zip(firm, loose, strict=True))
    step = max(1, -(-(most - owned_gpus) // _STEPS_MOST))
    sizes = range(0, max(0, most - owned_gpus) + step, step)
    return min((mix_of(firm, loose, owned_gpus, size, rates) for size in sizes), key=lambda mix: mix.micros_a_week)


def mix_of(firm: Sequence[int], loose: Sequence[int], owned_gpus: int, held_gpus: int, rates: Rates) -> Mix:
    """Return what holding so many GPUs costs a week, where all that is wanted is bought."""
    room = (owned_gpus + held_gpus) * HOUR_MS
    short = [max(0, need - room) for need in firm]
    left = [max(0, room - need) for need in firm]
    over = [max(0, extra - free) for extra, free in zip(loose, left, strict=True)]
    spot_ms = sum(over) if rates.spot is not None else 0
    demand_ms = sum(short) + (0 if rates.spot is not None else sum(over))
    hours = len(firm)
    paid = held_gpus * hours * HOUR_MS * (rates.reserved or 0) + demand_ms * (rates.on_demand or 0)
    paid += spot_ms * (rates.spot or 0)
    return Mix(
        held_gpus,
        paid * _WEEK_HOURS // (hours * HOUR_MS),
        demand_ms * _WEEK_HOURS // (hours * HOUR_MS),
        spot_ms * _WEEK_HOURS // (hours * HOUR_MS),
        sum(a + b > 0 for a, b in zip(short, over, strict=True)) * _WEEK_HOURS // hours,
        -(-max(a + b for a, b in zip(short, over, strict=True)) // HOUR_MS),
    )


def scaled(hours: Sequence[int], part: int, whole: int) -> list[int]:
    """Return hours of a demand that is `part` of `whole` of this one."""
    return [amount * part // whole for amount in hours] if whole else list(hours)
