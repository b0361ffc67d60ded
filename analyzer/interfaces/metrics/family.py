"""How a family of the fleet is made: from rows, with what is not known left out."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from prometheus_client.core import GaugeMetricFamily

from agent.wire.units import MICROS

PREFIX = "gpuledger_fleet"
T = TypeVar("T")


def one(name: str, about: str, value: float) -> GaugeMetricFamily:
    """Return a family of one value."""
    return GaugeMetricFamily(f"{PREFIX}_{name}", about, value)


def many(
    name: str,
    about: str,
    labels: Sequence[str],
    rows: Sequence[T],
    named: Callable[[T], Sequence[str]],
    value: Callable[[T], float | None],
) -> GaugeMetricFamily:
    """Return a family with a series for each row whose value is known; `named` gives the values of the labels."""
    family = GaugeMetricFamily(f"{PREFIX}_{name}", about, labels=list(labels))
    for row in rows:
        if (amount := value(row)) is not None:
            family.add_metric(list(named(row)), amount)
    return family


def money(micros: int | None) -> float | None:
    """Return millionths as whole units of the ledger's currency."""
    return None if micros is None else micros / MICROS
