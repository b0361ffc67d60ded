"""The imaginary week 2026-W46 of cluster alpha as a ledger, to the tenth of a GPU-hour, and its findings.

Every figure is invented; the reports drawn from it are the golden files, and their sums can be checked by hand.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import pyarrow as pa

from agent.wire.units import HOUR_US
from analyzer.findings.finding import EvidenceLine, Finding
from analyzer.period import Calendar, Period
from analyzer.recommendations.recommendation import Artefact, Range, Recommendation, Saved
from analyzer.states import booking
from collector.store.database import Store
from collector.store.session import Session

CALENDAR = Calendar("Europe/Berlin")
W46: Period = CALENDAR.week(2026, 46)
W45: Period = CALENDAR.week(2026, 45)
TENTH = 360_000  # milliseconds in a tenth of a GPU-hour
RATES = {"H100-80GB": 2_600_000, "A100-80GB": 1_100_000}
OPTIONS = {"H100-80GB": "reserved", "A100-80GB": "owned"}
SKU_OF_NODE = {f"n{n:02d}": "H100-80GB" if n <= 16 else "A100-80GB" for n in range(1, 25)}
RACK_OF_NODE = {f"n{n:02d}": f"rack-{(n - 1) // 8 + 1}" for n in range(1, 25)}
TUESDAY_8, WEDNESDAY_10 = W46.start + 32 * HOUR_US, W46.start + 58 * HOUR_US

Amounts = dict[str, float]  # "state/cause" to GPU-hours


@dataclass(frozen=True)
class Job:
    """One run (or several of one name) and where its GPU-hours went."""

    name: str
    run_id: str | None
    team: str | None
    sku: str
    hours: Amounts
    nodes: tuple[str, ...] = ()
    from_hour: int = W46.start
    stage: str = "pretraining"


PEERS, SAVING, START, LOW, SILENT = (
    "communicating/collective",
    "checkpointing/storage",
    "starting/warm_up",
    "unexplained",
    "unobserved/agent_down",
)
WORK = "productive/compute"
H100, A100 = "H100-80GB", "A100-80GB"
JOBS = (
    Job("pretrain-7b", "slurm/alpha/81001", "team-nlp", H100, {SILENT: 38.4}, ("n05",), WEDNESDAY_10),
    Job(
        "llama-sft",
        "slurm/alpha/81234",
        "team-nlp",
        H100,
        {WORK: 545.6, "starved/preprocessing": 462.5, PEERS: 67.7, SAVING: 28.2, START: 9.6, LOW: 11.3, SILENT: 3.1},
        ("n14", "n15"),
        TUESDAY_8,
        "fine-tuning",
    ),
    Job("-", None, None, H100, {"unallocated/drained": 576.0}, ("n16",)),
    Job(
        "pretrain-7b",
        "slurm/alpha/81001",
        "team-nlp",
        H100,
        {
            WORK: 8710.4,
            PEERS: 752.6,
            SAVING: 271.8,
            START: 140.4,
            LOW: 255.0,
            "communicating/cross_rack": 645.1,
            "lost_work/node_failed": 256.0,
            "throttled/thermal": 161.3,
        },
    ),
    Job(
        "eval (212)",
        "slurm/alpha/81500",
        "team-nlp",
        H100,
        {WORK: 400.0, "starved/loader_software": 61.0, PEERS: 20.0, START: 30.0, LOW: 10.0},
        stage="evaluation",
    ),
    Job("debug-asr", "slurm/alpha/81377", "team-speech", H100, {"held_idle/abandoned": 471.2}, stage="interactive"),
    Job(
        "asr-finetune",
        "slurm/alpha/81290",
        "team-speech",
        H100,
        {WORK: 234.1, "starved/network_storage": 142.1, SAVING: 12.0, START: 10.0, LOW: 10.6},
        stage="fine-tuning",
    ),
    Job(
        "det-sweep (41)",
        "slurm/alpha/81400",
        "team-vision",
        H100,
        {
            WORK: 2164.5,
            "underused/small_kernels": 371.2,
            "starved/loader_software": 134.4,
            "lost_work/failed": 118.4,
            "held_idle/never_used": 57.6,
            PEERS: 122.8,
            SAVING: 78.9,
            START: 69.4,
            LOW: 82.0,
            SILENT: 0.8,
        },
    ),
    Job("-", None, None, H100, {"unallocated/free": 3968.0}),
    Job("notebooks (8)", "slurm/alpha/81050", "team-vision", A100, {"held_idle/held_memory": 1076.0}),
    Job(
        "vit-large (9)",
        "slurm/alpha/81100",
        "team-vision",
        A100,
        {
            WORK: 3231.6,
            "starved/storage": 211.2,
            "lost_work/preempted": 64.0,
            "throttled/power": 38.4,
            PEERS: 308.1,
            SAVING: 76.1,
            START: 38.6,
            LOW: 122.2,
            SILENT: 17.8,
        },
    ),
    Job(
        "ranker-serve",
        "kubernetes/alpha/7f0c",
        "team-search",
        A100,
        {
            "productive/decode": 1277.2,
            "headroom/declared": 1182.6,
            "underused/unbatched": 188.2,
            START: 20.0,
            LOW: 15.0,
            SILENT: 5.0,
        },
        stage="serving",
    ),
    Job("-", None, None, A100, {"unallocated/free": 2880.0}),
)
# How many points of a hundredth of the bill each label cost more (+) or less than in the week before, in tenths.
CHANGES = {
    "productive": 19,
    "idle allocation": -6,
    "input starvation": 4,
    "cross-rack transfers": -2,
    "underutilized": 0,
    "lost work": -4,
    "throttling": -1,
    "communication": 0,
    "checkpointing": -1,
    "starting": 0,
    "unallocated": -8,
    "drained": 3,
    "serving headroom": -1,
    "low utilization, unexplained": -2,
    "not measured": -1,
}
Row = dict[str, object]


@dataclass
class Hall:
    """The GPU-hours of a week that are still free, by GPU and hour, in tenths."""

    left: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(lambda: 10))

    def place(self, job: Job) -> Iterator[tuple[str, str, int, str, int]]:
        """Yield (node, gpu, hour, what, tenths): pinned jobs hour by hour, others GPU by GPU."""
        slots, here = iter(_slots(job)), ("", "", 0)
        free = 0
        for what, tenths in _stripes(job.hours):
            wanted = tenths
            while wanted:
                while not free:
                    here = next(slots)
                    free = self.left[here[1:]]
                part = min(free, wanted)
                self.left[here[1:]] -= part
                free, wanted = free - part, wanted - part
                yield *here, what, part


def _slots(job: Job) -> Iterator[tuple[str, str, int]]:
    nodes = job.nodes or tuple(node for node, sku in SKU_OF_NODE.items() if sku == job.sku)
    gpus = [(node, f"GPU-{node}-{index}") for node in nodes for index in range(8)]
    hours = range(job.from_hour, W46.end, HOUR_US)
    if job.nodes:
        yield from ((node, gpu, hour) for hour in hours for node, gpu in gpus)
    else:
        yield from ((node, gpu, hour) for node, gpu in gpus for hour in hours)


def _stripes(hours: Amounts) -> Iterator[tuple[str, int]]:
    """Yield (what, tenths) so that every state recurs all through the run and the sums are exact."""
    tenths = {what: round(amount * 10) for what, amount in hours.items()}
    count = max(1, sum(tenths.values()) // 320)
    for stripe in range(count):
        for what, amount in tenths.items():
            part = amount * (stripe + 1) // count - amount * stripe // count
            if part:
                yield what, part


def ledger_rows() -> list[Row]:
    """Return the rows of W46."""
    hall, rows = Hall(), []
    for job in JOBS:
        for node, gpu, hour, what, tenths in hall.place(job):
            state, _, cause = what.partition("/")
            rows.append(_row(hour, gpu, node, job.sku, job.run_id, state, cause or None, tenths))
    return rows


def _row(
    hour: int, gpu: str, node: str, sku: str, run_id: str | None, state: str, cause: str | None, tenths: int
) -> Row:
    return {
        "hour": hour,
        "gpu_uuid": gpu,
        "node": node,
        "sku": sku,
        "purchase_option": OPTIONS[sku],
        "run_id": run_id,
        "attempt": 0,
        "state": state,
        "cause": cause,
        "shared": False,
        "confidence": "high",
        "milliseconds": tenths * TENTH,
        "cost_micros": tenths * RATES[sku] // 10,
        "rules_version": "3",
        "price_version": "2026-11-01",
    }


def previous_rows(rows: list[Row]) -> list[Row]:
    """Return W45 in one row a state: enough for the column of changes, and short of the drawing by $612."""
    sums: dict[tuple[str, str | None], list[int]] = {}
    for row in rows:
        key = (str(row["state"]), row["cause"] if row["cause"] is None else str(row["cause"]))
        total = sums.setdefault(key, [0, 0])
        total[0] += int(str(row["milliseconds"]))
        total[1] += int(str(row["cost_micros"]))
    changes = dict(CHANGES)
    found = []
    for (state, cause), (milliseconds, cost) in sums.items():
        label = booking(state, cause).label
        change = changes.pop(label, 0)
        rest = {"idle allocation": 2_360_000, "productive": -2_360_000}.get(label, 0) if change else 0
        before = _row(W45.start, "GPU-n01-0", "n01", H100, None, state, cause, 0)
        found.append(before | {"milliseconds": milliseconds, "cost_micros": cost + rest - change * 67_737_600})
    return found


def fill(session: Session) -> None:
    """Write both weeks into an empty store."""
    for table, rows in _tables():
        session.insert(table, rows)


@cache
def _tables() -> tuple[tuple[str, pa.Table], ...]:
    """Return what both weeks are, by table: 75,000 rows, which take longer to make than to write."""
    rows = ledger_rows()
    hours = [
        {"hour": hour, "status": "closed", "input_digest": "-", "rules_version": "3", "price_version": "2026-11-01"}
        for hour in range(W45.start, W46.end, HOUR_US)
    ]
    runs = {job.run_id: _run(job) for job in JOBS if job.run_id}
    kinds = dict.fromkeys(("served", "latency", "progress", "energy", "activity", "traffic"), "samples")
    found: tuple[tuple[str, list[Row]], ...] = (
        ("ledger", rows),
        ("ledger", previous_rows(rows)),
        ("ledger_hours", hours),
        ("analysed_until", [{"until_us": W46.end}]),
        ("amount_hours", [{"hour": h["hour"], "booked_batch": 0, **kinds} for h in hours]),
        ("runs", list(runs.values())),
        ("run_doings", [_doings(job) for job in JOBS if job.run_id in runs]),
        ("inventory", _inventory()),
        (
            "not_evaluated",
            [{"hour": W46.start, "subject": "rack-3", "rule": "cross_rack", "missing": "switch unknown"}],
        ),
    )
    return tuple((table, pa.Table.from_pylist(made)) for table, made in found)


def _run(job: Job) -> Row:
    placed = job.name == "llama-sft"
    return {
        "run_id": job.run_id,
        "name": job.name,
        "team": job.team,
        "queue": "gpu",
        "stage": job.stage,
        "exit_status": "completed",
        "submitted_at": W46.start + 30 * HOUR_US + 20 * 60_000_000,
        "started_at": W46.start + 32 * HOUR_US + 12 * 60_000_000 if placed else W46.start,
        "ended_at": W46.start + 102 * HOUR_US + 42 * 60_000_000 if placed else W46.end,
        "gpus": 16,
        "nodes": 2,
        "racks": 1,
        "sku": job.sku,
        "attempts": 1,
    }


def _doings(job: Job) -> Row:
    """Return what telemetry told of a job, in one hour: SM activity on H100, NVML's utilization alone on A100."""
    measured = round(sum(amount for what, amount in job.hours.items() if what != SILENT) * 3_600_000)
    zeros = ("busy_ms", "office_busy_ms", "activity_ms", "pauses", "phase_minutes", "memory_minutes", "tensor_minutes")
    return dict.fromkeys((*zeros, "turns", "windows", "exchange_windows"), 0) | {
        "run_id": job.run_id,
        "hour": job.from_hour,
        "measured_ms": measured,
        "sm_ms": measured if job.sku == H100 else 0,
    }


def _inventory() -> list[Row]:
    hosts = [
        {"node": node, "started_at": W45.start, "ended_at": W46.end, "rack": rack, "batch": 0}
        for node, rack in RACK_OF_NODE.items()
    ]
    return [*hosts]


def example_store() -> Store:
    """Return a store in memory that holds the example."""
    store = Store.open(None)
    with store.session() as session:
        fill(session)
    return store


# id, run, what, state, cause, GPU-hours, $ at stake, confidence, owner
_FINDINGS = """
f-m3p8|pretrain-7b|cross-rack transfers|communicating|cross_rack|645.1|1677.26|high|run
f-2zc6|debug-asr|idle, abandoned|held_idle|abandoned|471.2|1225.12|high|run
f-7kq2|llama-sft|input: preprocessing|starved|preprocessing|462.5|1202.50|high|run
f-8vn4|notebooks (8)|idle, memory in use|held_idle|held_memory|1076.0|1183.60|medium|platform
f-q1x7|det-sweep (41)|underutilized: small kernels|underused|small_kernels|371.2|965.12|medium|run
f-t4r0|pretrain-7b|lost work: n05 failed|lost_work|node_failed|256.0|665.60|high|platform
f-c5j2|pretrain-7b|throttling: heat, n11, n12|throttled|thermal|161.3|419.38|high|platform
f-b7d9|asr-finetune|input: network storage|starved|network_storage|142.1|369.46|high|run
f-k3s8|det-sweep (41)|input: loader software|starved|loader_software|134.4|349.44|medium|run
f-w6h1|det-sweep (41)|lost work: out of memory|lost_work|failed|118.4|307.84|high|run
f-x2m4|vit-large (9)|input: storage|starved|storage|211.2|232.32|medium|platform
f-r8p5|ranker-serve|underutilized: unbatched|underused|unbatched|188.2|207.02|medium|run
f-j4v7|eval (212)|input: loader software|starved|loader_software|61.0|158.60|medium|run
f-n9q3|det-sweep (41)|idle, never used|held_idle|never_used|57.6|149.76|high|run
f-d1z6|vit-large (9)|lost work: preempted|lost_work|preempted|64.0|70.40|high|platform
f-g5t8|vit-large (9)|throttling: power limit|throttled|power|38.4|42.24|medium|platform
"""
_EVIDENCE = {
    "f-7kq2": (
        "41.0% of this run ($1,202.50) went into input starvation. The loader is the limit, not the disk: 8 workers "
        "per rank instead of 4 would do.",
        (
            EvidenceLine("loader workers", "64 (4 per rank), each at 96-99% of a core", "<- the limit"),
            EvidenceLine("input to GPUs", "3.4 GB/s; 6.3 GB/s in the best tenth of the run"),
            EvidenceLine("storage", "/data on nvme: 0.9 of 5.8 GB/s seen, 9% busy", "has room"),
            EvidenceLine("CPU", "80 of 128 allocated cores busy; 128 more cores unallotted", "has room"),
        ),
        "synthetic input does not make a step at least 1.4x faster",
    ),
    "f-m3p8": (
        "8 nodes in rack-1 and rack-2 are ranked alternately, so the ring crosses the spine 8 times. Ranked rack by "
        "rack it would cross 2 times.",
        (
            EvidenceLine("ranks per rack", "1 2 1 2 1 2 1 2 (of the job)", "known for all nodes"),
            EvidenceLine("spine traffic", "293 TB an hour (RDMA: estimate)", "over 10% of its bytes"),
            EvidenceLine("GPUs", "NVML busy 97%, tensor 6% in 645.1 GPU-hours"),
        ),
        "contiguous ranks do not shorten a step by 3% within 50 steps",
    ),
}


def findings() -> list[Finding]:
    """Return the sixteen findings of the week; at stake, they sum to $9,225.66."""
    return [_finding(line.split("|")) for line in _FINDINGS.strip().splitlines()]


def _finding(parts: list[str]) -> Finding:
    id_, subject, what, state, cause, hours, at_stake, confidence, actor = parts
    job = next(job for job in JOBS if job.name == subject)
    sentence, evidence, wrong_if = _EVIDENCE.get(id_, (f"{subject}: {what}.", (), "it does not recur"))
    return Finding(
        id_,
        state,
        subject,
        (job.run_id or "",),
        job.team,
        state,
        cause,
        what,
        round(float(hours) * 3_600_000),
        round(float(at_stake) * 1_000_000),
        "high" if confidence == "high" else "medium",
        actor,
        W46.start + 32 * HOUR_US,
        W46.end,
        still_open=True,
        caused_by=None,
        claim=sentence,
        evidence=evidence,
        wrong_if=wrong_if,
        rule_version="3",
    )


# id, finding, subject, title, owner, P20, P50, P80 in $ a week, cost of moving in $
_RECOMMENDATIONS = """
r-9td4|f-m3p8|pretrain-7b|order the ranks by rack|run|839|1258|1409|280
r-h5w1|f-2zc6|debug-asr|release 8 H100, quiet since Friday|run|1010|1184|1225|-
r-6bq9|f-8vn4|8 notebooks|share 2 A100 as MIG slices|platform|820|1109|1150|150
r-3mx8|f-7kq2|llama-sft|8 loader workers per rank, not 4|run|842|1022|1142|0
r-w2k5|f-q1x7|det-sweep|two trials on one GPU|run|300|480|600|0
"""


def recommendations() -> list[Recommendation]:
    """Return the five that are worth doing and eleven small ones."""
    named = [_recommendation(line.split("|")) for line in _RECOMMENDATIONS.strip().splitlines()]
    small = [
        _recommendation([f"r-{n:04d}", f.id, f.subject, f"see {f.id}", "run", "10", "20", "30", "0"])
        for n, f in enumerate(findings()[5:])
    ]
    return [*named, *small]


def _recommendation(parts: list[str]) -> Recommendation:
    id_, finding, subject, title, actor, p20, p50, p80, cost = parts
    dollars = Range(int(p20) * 10**6, int(p50) * 10**6, int(p80) * 10**6)
    hours = Range(*(round(int(amount) / 2.6 * 3_600_000) for amount in (p20, p50, p80)))
    loader = id_ == "r-3mx8"
    return Recommendation(
        "more_cpu" if loader else "other",
        title,
        "4 loader workers per rank, 8 CPUs per GPU" if loader else "as it is",
        "8 loader workers per rank, 12 CPUs per GPU" if loader else title,
        "The workers fill their cores while half of the node's cores are not allocated."
        if loader
        else "It was measured.",
        (
            Artefact("slurm", "#SBATCH --cpus-per-gpu=12          # was 8"),
            Artefact("python", "DataLoader(..., num_workers=8)     # was 4"),
        )
        if loader
        else (),
        "none: the cores are not allocated" if loader else "none",
        cost_to_move="none: a setting" if cost == "0" else "one restart" if cost != "-" else "unknown: ask the owner",
        actor=actor,
        subject=subject,
        team=next((f.team for f in findings() if f.id == finding), None),
        finding_ids=(finding,),
        id=id_,
        saves_milliseconds=hours,
        saves_micros=dollars,
        billed=Saved(Range(0, 0, 0), Range(0, 0, 0)),
        cost_to_move_micros=None if cost == "-" else int(cost) * 10**6,
    )
