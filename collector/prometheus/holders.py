"""Who held a GPU when, by the labels of its exporter: stretches of scrapes that name the same holder."""

from dataclasses import astuple
from typing import Any

import pyarrow as pa

from agent.wire.units import MILLISECOND_US
from collector.pipeline.decoding.range_checks import pc
from collector.prometheus.answer import SeriesAnswer
from collector.prometheus.gathering import repeated_values
from collector.prometheus.labels import ExporterHolder, Subject, holder, subject
from collector.prometheus.names import Metric
from collector.prometheus.pivot import REACH, shifted

_TEXTS = ("namespace", "pod", "container", "hpc_job")
_SCHEMA = pa.schema(
    {name: pa.string() for name in ("node", "gpu_uuid")}
    | {name: pa.int64() for name in ("started_at", "ended_at")}
    | {name: pa.string() for name in _TEXTS}
)


class Holders:
    """Collects stretches, window after window; those that meet become one."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._spells: dict[tuple[Subject, ExporterHolder], list[list[int]]] = {}

    def add(self, metric: Metric, answer: SeriesAnswer) -> None:
        """Take the series of a metric that every GPU has."""
        pairs = [(subject(metric, metric.slots[0], labels), holder(labels)) for labels in answer.labels]
        names = list(dict.fromkeys((s, h) for s, h in pairs if s is not None and h is not None))
        if not names:
            return
        number: dict[Any, int] = {pair: index for index, pair in enumerate(names)}
        whose = repeated_values([number.get(pair, -1) for pair in pairs], answer.lengths)
        table = pa.table({"whose": whose, "time": answer.times}).filter(
            pc.fill_null(pc.is_finite(answer.values), False)
        )
        for index, first, last in _stretches(table.filter(pc.greater_equal(table["whose"], 0)), self._step * REACH):
            self._note(names[index], first, last)

    def table(self) -> pa.Table:
        """Return all stretches; each begins one scrape interval before the first scrape that names the holder."""
        rows = [
            (
                found.node,
                found.key("gpu_uuid"),
                (first - self._step) * MILLISECOND_US,
                last * MILLISECOND_US,
                *astuple(who),
            )
            for (found, who), spells in self._spells.items()
            for first, last in spells
        ]
        rows.sort(key=lambda row: tuple(str(value) for value in row[:2]) + row[2:4])
        columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
        return pa.table({name: list(column) for name, column in zip(_SCHEMA.names, columns, strict=True)}, _SCHEMA)

    def _note(self, pair: tuple[Subject, ExporterHolder], first: int, last: int) -> None:
        spells = self._spells.setdefault(pair, [])
        if spells and first - spells[-1][1] <= self._step * REACH:
            spells[-1][1] = max(spells[-1][1], last)
        else:
            spells.append([first, last])


def _stretches(table: pa.Table, reach: float) -> list[tuple[int, int, int]]:
    """Return (whose, first, last) of each run of scrapes without a gap."""
    table = table.sort_by([("whose", "ascending"), ("time", "ascending")]).combine_chunks()
    if not table.num_rows:
        return []
    whose, time = table["whose"].combine_chunks(), table["time"].combine_chunks()
    distance = pc.cast(pc.subtract(time, shifted(time)), pa.float64())
    goes_on = pc.and_(pc.equal(whose, shifted(whose)), pc.less_equal(distance, reach))
    starts = pc.invert(pc.fill_null(goes_on, False))
    ends = pa.concat_arrays([starts.slice(1), pa.array([True])])
    told: list[list[Any]] = [
        array.to_pylist() for array in (whose.filter(starts), time.filter(starts), time.filter(ends))
    ]
    return list(zip(*told, strict=True))
