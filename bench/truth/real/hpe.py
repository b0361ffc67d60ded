"""Fifteen ranks that wait for storage: the step times of a submitter's run (MLPerf Storage 1.0) through the ledger.

Accelerators are emulated in that benchmark: a step waits for its batch, then sleeps for 0.323 s. A sensor would have
seen a GPU busy while it "computes". Each rank becomes a GPU of one run over five hosts, sampled every second.

Where a step lies in time is recorded only in part. A rank's steps take up 188 to 190 s of an epoch, an epoch 202 to
205 s: 20 to 28 ms a step, from the end of one to the begin of the next, are in no record of a step. The benchmark's
source says why (argonne-lcf/dlio_benchmark, dlio_benchmark/main.py): a step's time is noted first, then all ranks meet
in `comm.barrier()`, and only then the clock of the next load starts. By the published figure the barrier is lost time
of the accelerator, by the records no wait for input. Two placings are therefore scored:

- `clock`: every step begins together, after the stragglers's last and an even part of what is missing to the
  epoch's own begin and end. This is what a GPU's sensor would have seen.
- `steps`: back to back, after the stragglers's last, without what is missing: what the steps' own records can say.
  Neither the sum of the loads nor their quantiles order the epochs as published: those of all five are alike.

That each step has its part is the source's word; that the parts are even is our assumption. Of random length
(exponential, three draws) they gave Spearman 0.7, 0.9 and 0.9: that the first epoch waits least comes out each time,
the order of the other four, 0.3 points apart, not. All of it after the last step gave 0.3: waits of 1 to 2% of every
second are then no loss by the ledger's rules.

What was published is worked out again from the same two files: per rank, the compute of all steps but the first over
the epoch's time without that rank's first step, then the mean of the ranks (utils/statscounter.py there). No host was
measured but for the bytes read over the whole run, so that nothing may name a cause: what the ledger calls low and
unexplained counts as waiting here.

Where rank 0 tells by that clock how long it did not compute, as the published figure counts it, that is `starved`, and
nothing else is. Where it tells its records' loads alone, the rest of the stand-still, at the barriers, is no input.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

import numpy as np

from bench.truth.real.booking import WAITING, Booked, book
from bench.truth.real.checks import Check, at_least, at_most
from bench.truth.real.files import SECOND, HpeRun, RankEpoch, hpe_run, hpe_steps
from bench.truth.real.held import held
from bench.truth.real.ranking import kendall, spearman
from bench.truth.real.sensors import SENSORS, Activity, Row, Times, beats

Told: TypeAlias = Literal["nothing", "clock", "records"]

COMPUTE_US = 323_000
RUN = "declared/hpe/unet3d"
SKU = "emulated-H100"
SETTINGS = (("clock", "averaged"), ("clock", "ring"), ("clock", "ring and SM"), ("steps", "averaged"))
BUCKET_US = SECOND
CLOSE = 0.01  # a point of a hundred: a second more or less at either end of 200 is half of it
ALIKE = 0.9  # Spearman's coefficient over five epochs: one exchange of two neighbours
SEEN = 0.6  # of the first step's whole seconds: its load takes 2.3 to 3.4 s, its compute 0.3


@dataclass(frozen=True, slots=True)
class Placed:
    """When the steps of one epoch begin, by step, for all ranks; when the first of them ends, and the last."""

    epoch: int
    begins: Times
    first_ended: int
    ended: int


@dataclass(frozen=True, slots=True)
class EpochScore:
    """One epoch: shares of the ranks' time. `published` is 1 less the published utilization."""

    epoch: int
    published: float
    worked_out: float  # the same, from the ranks' own steps and the epoch's begin and end
    recorded: float  # by the steps' own records, without the first
    booked: float | None  # waiting after the first step, by the ledger
    first_step: float | None  # waiting (or starting) in the first step's whole seconds, by the ledger


def place(run: HpeRun, steps: Sequence[RankEpoch], placing: str) -> list[Placed]:
    """Return where the steps of each epoch lie in time; see the head of this module."""
    found = []
    for number, (began, ended) in enumerate(run.blocks, 1):
        slowest = _whole([ranked for ranked in steps if ranked.epoch == number]).max(axis=0)
        missing = ended - began - int(slowest.sum())
        gaps = np.diff(np.arange(len(slowest) + 1) * max(0, missing) // len(slowest)) if placing == "clock" else 0
        edges: Times = began + np.concatenate([[0], np.cumsum(slowest + gaps)])
        found.append(Placed(number, edges[:-1], int(edges[0] + slowest[0]), int(edges[-1])))
    return found


def tables(
    run: HpeRun, steps: Sequence[RankEpoch], placed: Sequence[Placed], sensor: str, told: Told = "nothing"
) -> list[dict[str, list[Row]]]:
    """Return the rows of each host, every second, from the run's begin to its end.

    What rank 0 tells of its waits, its host's agent has: the time that it did not compute, its records' loads, or
    nothing.
    """
    start, end = run.started_at // SECOND * SECOND, -(-run.ended_at // SECOND) * SECOND
    edges = beats(start, end, SECOND)
    hosts = sorted({ranked.host for ranked in steps})
    made = []
    for host in hosts:
        ranks = sorted({ranked.rank for ranked in steps if ranked.host == host})
        rows = held(host, tuple(f"GPU-{rank:02}" for rank in ranks), RUN, SKU, start, end)
        rows["gpu_samples"] = [
            {"node": host, "gpu_uuid": f"GPU-{rank:02}", **row}
            for rank in ranks
            for row in SENSORS[sensor](_activity(rank, steps, placed), edges)
        ]
        if 0 in ranks and told != "nothing":
            rows["progress"] = _progress(host, steps, placed, edges, told)
        made.append(rows)
    return made


def judge(placing: str, sensor: str, told: Told = "nothing") -> list[EpochScore]:
    """Return what the ledger makes of each epoch; waiting is what is starved, where the run tells of it."""
    run, steps = hpe_run(), hpe_steps()
    placed = place(run, steps, placing)
    booked = book(tables(run, steps, placed, sensor, told), BUCKET_US)
    waiting = WAITING if told == "nothing" else frozenset({"starved"})
    return [_epoch_score(run, steps, epoch, booked, waiting) for epoch in placed]


def worked_out(run: HpeRun, epoch: Sequence[RankEpoch]) -> float:
    """Return 1 less the utilization of one epoch's ranks, as the benchmark defines it."""
    began, ended = run.blocks[epoch[0].epoch - 1]
    use = [COMPUTE_US * (len(each.load) - 1) / (ended - began - each.load[0] - each.rest[0]) for each in epoch]
    return 1 - sum(use) / len(use)


def score() -> tuple[list[dict[str, object]], list[Check]]:
    """Return every epoch's figures by placing and sensor, and the checks."""
    figures: list[dict[str, object]] = []
    checks: list[Check] = []
    epochs: list[EpochScore] = []
    for placing, sensor in SETTINGS:
        epochs = judge(placing, sensor)
        published, booked = [each.published for each in epochs], [each.booked or 0.0 for each in epochs]
        order = {"spearman": spearman(booked, published), "kendall": kendall(booked, published)}
        figures.append({"placing": placing, "sensor": sensor, **order, "epochs": [asdict(each) for each in epochs]})
        checks += _checks(f"HPE, {placing}, {sensor}", epochs, order["spearman"])
    return figures, checks + _worked_out_checks(epochs)


def _checks(how: str, epochs: Sequence[EpochScore], order: float | None) -> list[Check]:
    off = max((abs(each.booked - each.published) for each in epochs if each.booked is not None), default=None)
    least = min((each.first_step for each in epochs if each.first_step is not None), default=None)
    return [
        at_most(f"{how}: waiting by epoch, most that it is off 1 - AU", off, CLOSE),
        at_least(f"{how}: order of the epochs, Spearman", order, ALIKE, asked=True),
        at_least(f"{how}: first step of each epoch, least waiting", least, SEEN, asked=True),
    ]


def _worked_out_checks(epochs: Sequence[EpochScore]) -> list[Check]:
    """Return whether the recordings themselves say what was published; the ledger has no part in it."""
    order = spearman([each.worked_out for each in epochs], [each.published for each in epochs])
    off = max(abs(each.worked_out - each.published) for each in epochs)
    how = "HPE, ranks' steps by the epochs' clock, no ledger"
    return [
        at_least(f"{how}: order of the epochs, Spearman", order, ALIKE, asked=True),
        at_most(f"{how}: most that an epoch is off 1 - AU", off, CLOSE),
    ]


def _epoch_score(
    run: HpeRun, steps: Sequence[RankEpoch], placed: Placed, booked: Booked, waiting: frozenset[str]
) -> EpochScore:
    mine = [ranked for ranked in steps if ranked.epoch == placed.epoch]
    whole = _whole(mine)[:, 1:]
    began = int(placed.begins[0])
    return EpochScore(
        placed.epoch,
        1 - run.accelerator_use[placed.epoch - 1] / 100,
        worked_out(run, mine),
        1 - COMPUTE_US * whole.shape[1] / float(whole.max(axis=0).sum()),
        booked.share(RUN, waiting, placed.first_ended, placed.ended),
        # The first epoch's first batch is the run's first work: until then it is starting, by definition.
        booked.share(RUN, waiting | {"starting"}, began, placed.first_ended),
    )


def _whole(ranked: Sequence[RankEpoch]) -> Times:
    """Return the wall time of each step, by rank and step."""
    whole: Times = np.array([each.load for each in ranked]) + np.array([each.rest for each in ranked])
    return whole


def _progress(host: str, steps: Sequence[RankEpoch], placed: Sequence[Placed], edges: Times, told: Told) -> list[Row]:
    """Return what rank 0 tells after the load of each step, as its agent adds it up to the second."""
    loads = {ranked.epoch: np.array(ranked.load) for ranked in steps if ranked.rank == 0}
    loaded: Times = np.concatenate([epoch.begins + loads[epoch.epoch] for epoch in placed])
    # By the clock it waits since the computing of the step before, but for what lies before an epoch's first step.
    since = np.concatenate(
        [[epoch.begins[0], *(epoch.begins + loads[epoch.epoch])[:-1] + COMPUTE_US] for epoch in placed]
    )
    waits = loaded - since if told == "clock" else np.concatenate([loads[epoch.epoch] for epoch in placed])
    at = np.searchsorted(edges, loaded, "right") - 1
    return [
        {
            "node": host,
            "started_at": int(edges[beat]),
            "ended_at": int(edges[beat + 1]),
            "run_id": RUN,
            "data_wait_seconds": float(waits[at == beat].sum()) / SECOND,
        }
        for beat in np.unique(at).tolist()
    ]


def _activity(rank: int, steps: Sequence[RankEpoch], placed: Sequence[Placed]) -> Activity:
    loads = {ranked.epoch: ranked.load for ranked in steps if ranked.rank == rank}
    starts: Times = np.concatenate([epoch.begins + np.array(loads[epoch.epoch]) for epoch in placed])
    return Activity.of_stretches(starts, starts + COMPUTE_US)
