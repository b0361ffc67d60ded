"""The families of what stands beside the ledger: traffic, budgets, faults of prices."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily

from analyzer.interfaces.metrics.family import many, money, one
from analyzer.interfaces.metrics.finops_query import Bearer, FinopsFigures
from analyzer.measures.traffic.locality import ClassBytes

_US = 1e6


def beside_families(beside: FinopsFigures, unit: str) -> Iterator[GaugeMetricFamily]:
    """Yield them; `unit` is the ledger's currency, as names bear it."""
    about = "Bytes that runs moved in the last complete hour, by how far they went; GPU links are within a host or pod."
    yield many("hour_traffic_bytes", about, ("locality",), beside.traffic, _locality, lambda each: each.bytes)
    if beside.month is not None:
        start, end = beside.month
        yield one("month_timestamp_seconds", "Start of the month that is summed.", start / _US)
        yield one("month_end_timestamp_seconds", "Its end.", end / _US)
        yield from _of_month(beside.bearers, unit)
    about = "Faults of the price book by kind, as `gpuledger bill prices check` counts them."
    faults = list((beside.faults or {}).items())
    yield many("price_faults", about, ("kind",), faults, lambda each: each[:1], lambda each: each[1])
    about = "Whether a file of the settings cannot be read, so that its figures are missing here."
    yield many(
        "file_unreadable",
        about,
        ("file",),
        list(beside.unreadable.items()),
        lambda each: each[:1],
        lambda each: each[1],
    )


def _of_month(bearers: tuple[Bearer, ...], unit: str) -> Iterator[GaugeMetricFamily]:
    labels = ("bearer", "scope")
    yield many(
        f"month_spent_{unit}",
        "What the month cost so far: the dearest teams, those with a budget, and the fleet.",
        labels, bearers, _bearer, lambda each: money(each.spent_micros),
    )  # fmt: skip
    yield many(
        f"month_budget_{unit}", "What it may cost, by the budgets file.", labels, bearers, _bearer,
        lambda each: money(each.budget_micros),
    )  # fmt: skip
    yield many(
        f"month_expected_{unit}", "What it will have cost in the end, as forecast.", labels, bearers, _bearer,
        lambda each: money(each.expected_micros),
    )  # fmt: skip
    yield many(
        f"month_expected_high_{unit}", "What it will not exceed in nine of ten such forecasts.", labels, bearers,
        _bearer, lambda each: money(each.high_micros),
    )  # fmt: skip


def _locality(each: ClassBytes) -> tuple[str, ...]:
    return (each.locality,)


def _bearer(each: Bearer) -> tuple[str, ...]:
    return each.name, each.scope
