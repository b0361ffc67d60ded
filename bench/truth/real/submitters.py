"""Six submitters' runs, fed at the accelerator utilization that they published: 1,025 epochs (MLPerf Storage 1.0).

Partly a circle, and to be read as one: the published utilization goes into the sensors, and is compared with what the
ledger says of them. What it proves: that booking, rounding, windows, warm-up, epochs that begin anywhere and other
runs beside it do not distort a loss that the sensors show, and from how little on it is seen. What it does not: that
sensors show such a loss (the HPE run asks that of one submitter), that its cause is found (nothing is known of the
hosts but bytes read), or that anything else than input starvation makes a GPU idle (in an emulated one nothing does).

A step computes for as long as the benchmark prescribes and waits for the rest; its GPU is busy for the published share.
How long epochs took is not in the table: each gets 617 s, so that they begin anywhere in a window. One GPU stands
for all of a run, which report one number; what the run read, shared by its hosts, is told as of an NFS mount.

How far a single epoch may be off is bounded from below by what was ordered: a step that waits under 5% is no lack of
input, and is booked as work. The bar of one point is therefore out of reach of every rule that keeps that band, also of
one that knew where epochs begin (`most_off_by_epoch`); what lies beyond it comes of windows in which epochs mix.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from bench.truth.real.booking import WAITING, Booked, Tables, book
from bench.truth.real.checks import Check, at_least, at_most
from bench.truth.real.files import SECOND, Submission, submissions
from bench.truth.real.held import held
from bench.truth.real.ranking import kendall, parting, spearman
from bench.truth.real.sensors import SENSORS, Activity, beats

START = 1_794_225_600 * SECOND
EPOCH = 617 * SECOND
BEAT = 10 * SECOND
STAGGER = 37 * SECOND  # between the runs' begins: neither beats nor windows of two runs fall alike

# Seconds of compute a step, and what a run must reach to be valid: mlcommons/storage, configs/dlio/workload/*.yaml
# (train.computation_time, metric.au). Where the accelerator is not told, the H100's.
COMPUTE_SECONDS = {
    ("unet3d", "a100"): 0.636,
    ("unet3d", "h100"): 0.323,
    ("resnet50", "a100"): 0.435,
    ("resnet50", "h100"): 0.224,
    ("cosmoflow", "a100"): 0.00551,
    ("cosmoflow", "h100"): 0.00350,
}
PASS_PERCENT = {"unet3d": 90.0, "resnet50": 90.0, "cosmoflow": 70.0}
BANDS = (0.05, 0.20)  # TF Profiler: input-bound from 5% of the step, highly from 20%
SETTINGS = ("fraction", "averaged", "ring")
ALIKE, PARTED, RIGHT, CLOSE = 0.95, 0.99, 0.95, 0.01


@dataclass(frozen=True, slots=True)
class Epoch:
    """One published epoch, and the share of its time that the ledger books as waiting (None: no whole bucket)."""

    run: str
    workload: str
    epoch: int
    published: float  # 1 less the published utilization
    booked: float | None

    @property
    def is_below(self) -> bool:
        """True where the epoch alone would not have passed."""
        return 100 * (1 - self.published) < PASS_PERCENT[self.workload]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the ledger's order and bands of some epochs agree with the published ones."""

    epochs: int
    below_the_line: int
    spearman: float | None
    kendall: float | None
    parting: float | None  # how often an epoch below the line waits more than one above
    right_at_5_percent: float
    right_at_20_percent: float
    most_off: float
    most_off_by_epoch: float  # what a rule would leave that judged each epoch by itself, knew all, and kept the 5%
    over_a_point: int  # epochs that are off by more
    over_a_point_and_band: int  # of these, such as wait 5% or more
    most_apart: float  # published points between an epoch below the line and one above that is booked as much or more


def tables(number: int, run: Submission, sensor: str) -> Tables:
    """Return the rows of one run, whose epochs follow one another."""
    start = START + number * STAGGER
    end = start + len(run.accelerator_use) * EPOCH // BEAT * BEAT
    edges = beats(start, end, BEAT)
    node, gpu = f"host-{number:03}", f"GPU-{number:03}"
    moved = round(run.bytes_per_second / run.hosts * BEAT / SECOND)
    return {
        **held(node, (gpu,), run_id(run), "emulated", start, end),
        "gpu_samples": [
            {"node": node, "gpu_uuid": gpu, **row} for row in SENSORS[sensor](_activity(run, start, end), edges)
        ],
        "disk_samples": [
            {
                "node": node,
                "device": "/data",
                "mount_kind": "nfs",
                "started_at": int(at),
                "ended_at": int(at) + BEAT,
                "read_bytes": moved,
            }
            for at in edges[:-1]
        ],
    }


def run_id(run: Submission) -> str:
    """Return a submission's name as a run's."""
    return f"declared/mlperf/{run.name}"


def judge(runs: Sequence[Submission], sensor: str) -> list[Epoch]:
    """Return every epoch of these runs as published and as booked, all in one store."""
    booked = book([tables(number, run, sensor) for number, run in enumerate(runs)], BEAT)
    return [epoch for number, run in enumerate(runs) for epoch in _epochs(number, run, booked)]


def agreement(epochs: Sequence[Epoch]) -> Agreement:
    """Return how the ledger agrees with what was published."""
    published, booked = [each.published for each in epochs], [each.booked or 0.0 for each in epochs]
    pairs = list(zip(published, booked, strict=True))
    right = [sum((was >= band) == (is_now >= band) for was, is_now in pairs) / len(pairs) for band in BANDS]
    below = [each.booked or 0.0 for each in epochs if each.is_below]
    above = [each.booked or 0.0 for each in epochs if not each.is_below]
    return Agreement(
        len(epochs),
        len(below),
        spearman(booked, published),
        kendall(booked, published),
        parting(below, above),
        right[0],
        right[1],
        max(abs(was - is_now) for was, is_now in pairs),
        max((was for was in published if was < BANDS[0]), default=0.0),
        sum(abs(was - is_now) > CLOSE for was, is_now in pairs),
        sum(abs(was - is_now) > CLOSE for was, is_now in pairs if was >= BANDS[0]),
        _most_apart(epochs),
    )


def _most_apart(epochs: Sequence[Epoch]) -> float:
    """Return the largest published difference that the ledger turned round or lost, within a workload."""
    return max(
        (
            low.published - high.published
            for low in epochs
            for high in epochs
            if low.is_below and not high.is_below and low.workload == high.workload
            if (low.booked or 0.0) <= (high.booked or 0.0)
        ),
        default=0.0,
    )


def score() -> tuple[list[dict[str, object]], list[Check]]:
    """Return the agreement by sensor and workload, and the checks."""
    figures: list[dict[str, object]] = []
    checks: list[Check] = []
    for sensor in SETTINGS:
        epochs = judge(submissions(), sensor)
        for workload in (*PASS_PERCENT, None):
            of_it = [each for each in epochs if workload in (None, each.workload)]
            found = agreement(of_it)
            figures.append({"sensor": sensor, "workload": workload or "all", **asdict(found)})
            checks += _checks(f"submitters, {sensor}, {workload or 'all'}", found, whole=workload is None)
    return figures, checks


def _checks(how: str, found: Agreement, *, whole: bool) -> list[Check]:
    if not whole:
        return [at_least(f"{how}: below the pass line from above it", found.parting, PARTED, asked=True)]
    return [
        at_least(f"{how}: order of the epochs, Spearman", found.spearman, ALIKE, asked=True),
        at_least(f"{how}: right about 5% waiting", found.right_at_5_percent, RIGHT),
        at_least(f"{how}: right about 20% waiting", found.right_at_20_percent, RIGHT),
        at_most(f"{how}: most that an epoch is off", found.most_off, CLOSE),
    ]


def _activity(run: Submission, start: int, end: int) -> Activity:
    """Return the run's steps: compute, then wait, so that each epoch is busy for its published share."""
    accelerator = run.accelerator if run.accelerator in ("a100", "h100") else "h100"
    compute = COMPUTE_SECONDS[run.workload, accelerator] * SECOND
    starts = []
    for number, percent in enumerate(run.accelerator_use):
        first = start + number * EPOCH
        starts.append(np.arange(first, min(first + EPOCH, end), compute / (percent / 100))[:-1])
    begun = np.concatenate(starts)
    return Activity.of_stretches(np.rint(begun).astype(np.int64), np.rint(begun + compute).astype(np.int64))


def _epochs(number: int, run: Submission, booked: Booked) -> list[Epoch]:
    start = START + number * STAGGER
    return [
        Epoch(
            run.name,
            run.workload,
            at + 1,
            1 - percent / 100,
            booked.share(run_id(run), WAITING, start + at * EPOCH, start + (at + 1) * EPOCH),
        )
        for at, percent in enumerate(run.accelerator_use)
    ]
