"""Energy and carbon of a week in a sentence: beside the prices, and part of none of them."""

from collections.abc import Sequence

from analyzer.finops.non_gpu_costs.energy import EnergySum, summed_energy
from analyzer.finops.non_gpu_costs.text import energy_words, rows_told

_NOT_ADDED = "It is part of the prices above already."


def energy_sentences(sums: Sequence[EnergySum], currency: str) -> tuple[str, ...]:
    """Return what the fleet's GPUs drew, with the hall and carbon where rows say them; nothing where none was told."""
    if not sums:
        return ()
    whole = summed_energy(sums)
    basis = f" ({rows_told(whole)})" if whole.rows else ""
    return (f"{energy_words(whole, currency)}{basis}. {_NOT_ADDED}",)
