"""Energy and carbon of a week in a sentence: beside the prices, and part of none of them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from analyzer.pricing.beside.energy import EnergySum
from analyzer.pricing.beside.text import energy_words, rows_told

NOT_ADDED = "It is part of the prices above already."


def energy_sentences(sums: Sequence[EnergySum], currency: str) -> tuple[str, ...]:
    """Return what the fleet's GPUs drew, with the hall and carbon where rows say them; nothing where none was told."""
    if not sums:
        return ()
    whole = reduce(_together, sums)
    basis = f" ({rows_told(whole)})" if whole.rows else ""
    return (f"{energy_words(whole, currency)}{basis}. {NOT_ADDED}",)


def _together(one: EnergySum, other: EnergySum) -> EnergySum:
    return replace(
        one,
        node_group=None,
        gpu_millijoules=one.gpu_millijoules + other.gpu_millijoules,
        measured_ms=one.measured_ms + other.measured_ms,
        facility_millijoules=_sum(one.facility_millijoules, other.facility_millijoules),
        cost_micros=_sum(one.cost_micros, other.cost_micros),
        carbon_milligrams=_sum(one.carbon_milligrams, other.carbon_milligrams),
        rows=tuple(dict.fromkeys((*one.rows, *other.rows))),
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
