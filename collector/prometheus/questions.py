"""What is asked of a server for each metric, and how the answer is to be read.

GPUs, disks and links are asked for sample by sample. A host's processors are not: node_exporter has a series for each
of hundreds of them, more than all of a host's GPUs. The server averages them, and a row of a host then stands for some
scrapes instead of one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from collector.prometheus.names import Metric, Slot
from collector.prometheus.pivot import LONGEST_STEP, REACH

if TYPE_CHECKING:
    from collector.prometheus.answer import SeriesAnswer
    from collector.prometheus.client import Client

HOST_SCRAPES = 4  # that a row of a host stands for: a rate needs two, of which one may be missing
_LEVELLED = "host_samples"


@dataclass(frozen=True, slots=True)
class Question:
    """One metric to ask for. Without an expression its samples are asked for as they are stored."""

    metric: Metric  # as the answer is to be read
    expression: str | None = None
    step: int | None = None  # of the answer, milliseconds

    def ask(self, client: "Client", since: int, until: int) -> "SeriesAnswer":
        """Return the samples of a window and of what lies just before it, milliseconds UTC.

        Raises:
            ServerError: as the client's.
        """
        if self.expression is None or self.step is None:
            return client.samples(self.metric.name, since - round(LONGEST_STEP * REACH), until)
        first = (since // self.step - 1) * self.step
        return client.evaluated(self.expression, first, until // self.step * self.step, self.step)


def questions(metrics: Sequence[Metric], tables: Sequence[str], usual: int, step: int | None) -> list[Question]:
    """Return what is to be asked, the better exporters first; `usual` is the scrape interval, milliseconds."""
    asked: list[Question] = []
    ours = {slot.table for metric in metrics if metric.exporter == "gpuledger" for slot in metric.slots}
    for metric in metrics:
        taken = ours if metric.exporter in ("node_exporter", "serving") else frozenset[str]()
        slots = tuple(slot for slot in metric.slots if slot.table in tables and slot.table not in taken)
        if slots:
            asked += _of_metric(replace(metric, slots=slots), usual, step)
    return asked


def table_steps(asked: Sequence[Question]) -> dict[str, int]:
    """Return of each table how far apart the answers are, where they are not as far as the scrapes."""
    return {slot.table: one.step for one in asked if one.step is not None for slot in one.metric.slots}


def _of_metric(metric: Metric, usual: int, step: int | None) -> Iterator[Question]:
    if metric.exporter == "node_exporter" and metric.slots[0].table == _LEVELLED:
        over = step or HOST_SCRAPES * usual
        for slot in metric.slots:
            yield Question(replace(metric, slots=(_level(slot),)), _mean(metric.name, slot, over), over)
    elif step is None:
        yield Question(metric)
    else:
        counts = any(slot.reading in ("growth", "share", "news") for slot in metric.slots)
        yield Question(metric, f"{'last' if counts else 'avg'}_over_time({metric.name}[{step}ms])", step)


def _mean(name: str, slot: Slot, over: int) -> str:
    """Return the expression for the mean of a level, or for the share of the time that a counter of seconds tells."""
    if slot.reading == "value":
        return f"avg_over_time({name}[{over}ms])"
    only = f'{{{slot.only[0]}="{slot.only[1]}"}}' if slot.only else ""
    share = f"rate({name}{only}[{over}ms])"
    return f"clamp_max({f'avg without ({slot.parts}) ({share})' if slot.parts else share}, 1)"


def _level(slot: Slot) -> Slot:
    """Return the slot of what the server has worked out already."""
    return replace(slot, reading="value", parts="")
