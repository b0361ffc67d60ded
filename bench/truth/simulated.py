"""What is true, for judging the analyzer by. It never travels with the telemetry, and no collector sees it.

Every GPU-millisecond of the span has exactly one state and cause. Phases whose parts alternate too fast to be told
apart (a loader's waits of a third of a second) are divided by their shares in whole milliseconds: cumulated ends are
rounded down and the last part takes the rest, so that intervals telescope and sum to their length.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simulator.activity import FloatArray, IntArray
from simulator.fleet import Fleet
from simulator.labels import Label
from simulator.site import Chunk, Host
from simulator.timeline import Timeline


@dataclass(frozen=True, slots=True)
class GpuTruth:
    """One GPU over one chunk: milliseconds by beat and label. A row sums to its beat's length."""

    gpu_uuid: str
    edges: IntArray  # milliseconds since the site's start
    labels: tuple[Label, ...]
    milliseconds: IntArray  # beat by label


def gpu_truth(fleet: Fleet, host: Host, gpu: int, chunk: Chunk) -> GpuTruth:
    """Return the truth about one GPU, beat by beat."""
    edges: IntArray = np.arange(chunk.start, chunk.end + 1, chunk.beat, dtype=np.int64)
    part = fleet.timeline(host, gpu).between(chunk.start, chunk.end)
    labels, sums = _cumulated(part, edges)
    return GpuTruth(fleet.site.gpu_uuid(host, gpu), edges, labels, np.diff(sums, axis=0))


def truth(fleet: Fleet) -> Iterator[GpuTruth]:
    """Yield the truth about every GPU, day by day."""
    for chunk in fleet.site.chunks():
        for host in fleet.site.hosts:
            for gpu in range(host.gpus):
                yield gpu_truth(fleet, host, gpu, chunk)


def write_truth(fleet: Fleet, path: Path) -> int:
    """Write the truth about a fleet as compressed numpy arrays, and return its rows.

    A row is one GPU, interval and label: `gpu` and `label` index into `gpus` and `labels` ("state", "cause" and
    "would_be", empty where there is none), times are microseconds UTC. Abutting beats that are wholly of one label
    are one row.
    """
    uuids = [fleet.site.gpu_uuid(host, gpu) for host in fleet.site.hosts for gpu in range(host.gpus)]
    number = {uuid: at for at, uuid in enumerate(uuids)}
    known: dict[Label, int] = {}
    rows = np.concatenate([_rows(part, number[part.gpu_uuid], known) for part in truth(fleet)])
    names = np.array([(label.state, label.cause or "", label.would_be or "") for label in known])
    times = fleet.site.started_at + rows[:, 1:3] * 1_000
    with path.open("wb") as file:
        np.savez_compressed(
            file,
            gpus=np.array(uuids),
            labels=names,
            gpu=rows[:, 0].astype(np.int32),
            started_at=times[:, 0],
            ended_at=times[:, 1],
            label=rows[:, 3].astype(np.int16),
            milliseconds=rows[:, 4],
        )
    return len(rows)


def _cumulated(part: Timeline, edges: IntArray) -> tuple[tuple[Label, ...], IntArray]:
    """Return the labels of a timeline and the milliseconds of each up to each edge."""
    labels = tuple(dict.fromkeys(label for activity in part.activities for label, _ in activity.truth))
    column = {label: at for at, label in enumerate(labels)}
    shares = np.zeros((len(part.activities), len(labels)))
    last = np.zeros(len(part.activities), dtype=np.int64)
    for at, activity in enumerate(part.activities):
        for label, share in activity.truth:
            shares[at, column[label]] = share
            last[at] = column[label]
    lengths = np.diff(part.edges)
    sums = np.zeros((len(lengths) + 1, len(labels)), dtype=np.int64)
    np.cumsum(_divided(lengths, part.index, shares, last), axis=0, out=sums[1:])
    phase = np.clip(np.searchsorted(part.edges, edges, "right") - 1, 0, len(lengths) - 1)
    return labels, sums[phase] + _divided(edges - part.edges[phase], part.index[phase], shares, last)


def _divided(milliseconds: IntArray, index: IntArray, shares: FloatArray, last: IntArray) -> IntArray:
    """Return whole milliseconds by label; the last label of a phase takes what rounding leaves."""
    made = np.floor(milliseconds[:, None] * shares[index]).astype(np.int64)
    rest = milliseconds - made.sum(axis=1)
    made[np.arange(len(made)), last[index]] += rest
    return made


def _rows(part: GpuTruth, gpu: int, known: dict[Label, int]) -> IntArray:
    """Return rows of (gpu, start, end, label, milliseconds), abutting beats of one label made one."""
    beat, column = np.nonzero(part.milliseconds)
    code = np.array([known.setdefault(label, len(known)) for label in part.labels], dtype=np.int64)[column]
    amount = part.milliseconds[beat, column]
    start, end = part.edges[beat], part.edges[beat + 1]
    whole = amount == end - start
    follows = np.zeros(len(beat), dtype=np.bool_)
    follows[1:] = whole[1:] & whole[:-1] & (code[1:] == code[:-1])
    first = np.flatnonzero(~follows)
    final = np.append(first[1:], len(beat)) - 1
    return np.stack(
        [np.full(len(first), gpu), start[first], end[final], code[first], np.add.reduceat(amount, first)], axis=1
    )
