"""The numbers by which is judged, each with its source. Their digest is the rules' version on every ledger row.

No number that decides what is booked stands elsewhere in Python (tests/analyzer/ledger/test_rules.py looks for them).
Those of the notices do (analyzer/findings/health/notice.py): they book nothing, and are made anew when they are read.

A revision is raised by hand, with the code or the SQL of that rule; a number changes the versions of those who read it.
Either also changes the version of all rules together (analyzer/ledger/thresholds.py), by which the ledger is made anew.
tests/analyzer/ledger/test_rules.py holds these lists against what the detectors read.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from analyzer.ledger.causes import witnesses
from analyzer.ledger.causes.stages import PATTERNS
from analyzer.period import WINDOW_MS

# What of a run's time is looked at as work: begun, not long quiet, not in a checkpoint; and how long nothing ran in it.
WORK = (
    "active_permille", "begun_permille", "warm_up_ms", "starting_ms", "grown_mb", "grown_permille", "grown_last_ms",
    "loading_kb_per_ms", "one_core_least_milli", "quiet_permille", "quiet_ms", "held_mb", "abandoned_ms",
    "checkpoint_bytes_per_gpu", "checkpoint_dip_permille", "full_permille", "dip_samples", "window_ms",
    "look_ahead_ms",
)  # fmt: skip
# How long a run is below its own best, as it is while it spins for its peers: windows.sql.
SHORT = (
    "yardstick_permille", "deadband_permille", "spinning_permille", "decode_permille", "spins_utilization_permille",
    "spins_memory_permille", "spins_power_permille",
    "spins_power_alone_permille", "spins_least_watts", "spins_link_kb_per_ms",
    "wholly_spinning_permille", "launching_activity_permille",
)  # fmt: skip

INPUT = ("low_permille", "resting_permille", "persistence_windows", "witnesses")
EXCHANGE = (
    "low_permille", "one_core_least_milli", "begun_work_ms", "hang_ms", "spun_permille", "persistence_windows",
    "worker_seen_permille",
    "exchange_kb_per_ms", "exchange_short_permille", "exchange_ms", "slowed_permille", "dense_sm_permille",
    "dense_tensor_permille", "spinning_permille", "hang_utilization_permille", "hang_activity_permille",
    "hang_power_permille", "hang_power_of_usual_permille", "hang_link_permille", "underused_tensor_permille",
    "underused_dram_permille", "effective_sm_permille", "crossing_permille", "lesson_short_permille", "apart_permille",
)  # fmt: skip
STRAGGLER = (
    "slowed_permille", "odd_rank_milli", "rank_spread_permille", "lag_permille", "spinning_permille",
    "spinning_power_permille", "apart_permille", "roles_permille", "uneven_most_permille",
)  # fmt: skip
UNDERUSED = (
    "underused_busy_permille", "underused_sm_permille", "underused_tensor_permille", "underused_dram_permille",
    "underused_power_permille", "launching_utilization_permille", "launching_power_permille",
    "launching_activity_permille", "launching_pcie_kb_per_ms", "one_core_least_milli", "one_core_most_milli",
    "worker_seen_permille", "ineffective_sm_permille",
)  # fmt: skip
_SERVING = ("late_permille", "covered_permille", "read_gap_ms")
_HABIT = ("context_ms", "stuck_kb_per_ms")  # how far back it looks, and which PCIe readings it believes
_FABRIC = ("fabric_back_ms", "fabric_digits")
_HELD = (
    "active_permille", "begun_permille", "warm_up_ms", "starting_ms", "grown_mb", "grown_permille", "grown_last_ms",
    "loading_kb_per_ms", "one_core_least_milli", "quiet_permille", "quiet_ms", "held_mb",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: how often its code has changed its judgement, and the thresholds that it reads, by name."""

    revision: int
    reads: tuple[str, ...] = ()

    def version(self, numbers: Mapping[str, int]) -> str:
        """Return its version, such as 2.1f3a: the revision, and a digest of what it reads where it reads anything."""
        if not self.reads:
            return str(self.revision)
        text = json.dumps({name: numbers[name] for name in self.reads}, sort_keys=True)
        return f"{self.revision}.{hashlib.sha256(text.encode()).hexdigest()[:4]}"


_INPUT = Rule(4, (*WORK, *INPUT, *_HABIT))
_UNDERUSED = Rule(3, (*WORK, *UNDERUSED, "exchange_kb_per_ms"))
_THROTTLED = Rule(
    4,
    (
        *WORK,
        "slowed_permille",
        "limit_reached_permille",
        "limit_drawn_permille",
        "bandwidth_dram_permille",
        "bandwidth_tensor_permille",
    ),
)
_LOST = Rule(
    4,
    (
        "active_permille",
        "begun_work_ms",
        "checkpoint_bytes_per_gpu",
        "checkpoint_dip_permille",
        "small_state_bytes",
        "steady_write_bytes",
    ),
)
_BROKEN = Rule(1)  # the driver's and the scheduler's word: no number decides

# By state and cause as findings name them; a suspicion's state is unexplained.
RULE_OF: dict[str, Rule] = {
    "starved/preprocessing": _INPUT,
    "starved/storage": _INPUT,
    "starved/network_storage": _INPUT,
    "starved/loader_software": _INPUT,
    "starved/host_to_device": _INPUT,
    "starved/unknown": _INPUT,
    "unexplained/preprocessing": _INPUT,
    "unexplained/storage": _INPUT,
    "unexplained/network_storage": _INPUT,
    "unexplained/loader_software": _INPUT,
    "unexplained/host_to_device": _INPUT,
    "unexplained/own_process": _INPUT,
    "unexplained/decoder": _INPUT,
    "unexplained/turns": _INPUT,
    "unexplained/memory": _INPUT,
    "held_idle/never_used": Rule(4, (*_HELD, "abandoned_ms")),
    "held_idle/held_memory": Rule(4, (*_HELD, "abandoned_ms", "worker_seen_permille", "full_permille")),
    "held_idle/abandoned": Rule(4, (*_HELD, "abandoned_ms", *_SERVING)),
    "communicating/cross_rack": Rule(3, (*WORK, *SHORT, *EXCHANGE, *_FABRIC)),
    "communicating/straggler": Rule(4, (*WORK, *SHORT, *EXCHANGE, *STRAGGLER, "uneven_power_permille")),
    "communicating/uneven": Rule(1, (*WORK, *SHORT, *EXCHANGE, *STRAGGLER, "uneven_power_permille")),
    "communicating/hang": Rule(5, (*WORK, *SHORT, *EXCHANGE, *_HABIT)),
    "throttled/thermal": _THROTTLED,
    "throttled/power": _THROTTLED,
    "throttled/hardware": _THROTTLED,
    "underused/small_kernels": _UNDERUSED,
    "underused/launch_bound": _UNDERUSED,
    "underused/unbatched": _UNDERUSED,
    "headroom/beyond_policy": Rule(2, (*WORK, *_SERVING, "low_permille")),
    "lost_work/failed": _LOST,
    "lost_work/preempted": _LOST,
    "lost_work/node_failed": _LOST,
    "broken/gpu_lost": _BROKEN,
    "broken/node_down": _BROKEN,
    "broken/hardware": _BROKEN,
}


_RULES = "2026-11-27"  # raised by hand when the SQL or a detector changes its judgement

# What no pass may vary, since what is stored was made by it, or hours meet at it.
LOOK_AHEAD_MS = 1_800_000  # the longest that a later sample can change what an hour says: as abandoned_ms
CONTEXT_MS = 21_600_000  # how far back an hour looks: what a run has done for hours is a habit, not an episode
FABRIC_BACK_MS = 604_800_000  # how far back exchanges inside a rack are the yardstick of those across racks
FABRIC_DIGITS = 2  # of that rate: one more window then seldom changes what an hour was judged by
FIXED: Mapping[str, int] = {
    "window_ms": WINDOW_MS,
    "look_ahead_ms": LOOK_AHEAD_MS,
    "context_ms": CONTEXT_MS,
    "fabric_back_ms": FABRIC_BACK_MS,
    "fabric_digits": FABRIC_DIGITS,
    "witnesses": witnesses.DIGEST,
}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Shares are permille, times milliseconds. Sources: reference works named beside each number."""

    # What is work at all. Idle is left at 5% and entered at 1% (hysteresis; KempnerPulse, gpud).
    active_permille: int = 50
    # First work: the first sign of life, or the first busy sample within three minutes of it, which compiling precedes.
    begun_permille: int = 300
    begun_work_ms: int = 60_000  # ours: at work, of each GPU of an attempt that can lose any, or that can hang
    warm_up_ms: int = 180_000
    quiet_permille: int = 10
    # A pause of ten minutes is a state of its own; thirty are an abandoned GPU (TF Profiler has no such rule;
    # job_defense_shield warns after 60 min, cancels after 120: ours only books).
    quiet_ms: int = 600_000
    abandoned_ms: int = 1_800_000
    held_mb: int = 500  # a CUDA context alone is 300 to 500 MB
    starting_ms: int = 900_000  # DESIGN: 15 min, then never used; ours: unless it is seen to load, with no longer pause
    # Ours: a load of a gigabyte an hour; what stands by allocates nothing, and a driver's own steps are of 2 MB.
    grown_mb: int = 16  # in a minute
    grown_permille: int = 5  # and of what is in use: a load of three hours, and no noise of a gauge
    grown_last_ms: int = (
        3_600_000  # ours: how long something else than memory tells of a load: terabytes into the memory of hosts
    )
    loading_kb_per_ms: int = 5  # ours: 5 MB/s from disks, mounts or the network of a host: more than logs
    # What starting consists of. A pod's cgroup exists before its image does: it holds the pause container alone, which
    # takes under a megabyte. A Python interpreter that has loaded nothing takes ten.
    process_bytes: int = 8_000_000
    # What a job unpacks itself before it has a GPU context is an image (enroot, apptainer): CUDA's own runtime images
    # unpack to over a gigabyte.
    image_bytes: int = 1_000_000_000
    starting_margin_ms: int = 3_600_000  # how far beyond the chunk the signs of a start are looked for
    # Others' processes beside a holder's own: of SM time, below which desktops and what reads the driver stay; where no
    # share is told, of processors: who drives a GPU launches and polls, a notebook that waits does neither. Both ours.
    foreign_permille: int = 50
    foreign_millicores: int = 500
    gap_ms: int = 600_000  # longer silence is an agent that is down
    # The run's own best: its P90, not P95, which the noise of short intervals lifts above what the run ever averages.
    yardstick_permille: int = 900
    deadband_permille: int = 960  # within 4% of its best a run is at its best
    spinning_permille: int = 180  # SM activity of a collective that only waits: 24 NCCL blocks on 132 SMs (H100)
    decode_permille: int = 450  # HBM busier than this is work of its own kind, no spinning (inference decodes at 50%)
    full_permille: int = 950  # a utilization average above this holds no stall worth naming
    # A GPU that waits for others of its run: busy as the driver reports it, with its memory at rest and nothing sent.
    # It draws 0.2 to 0.4 of its limit (algorithms 1.2).
    spins_utilization_permille: int = 985
    spins_memory_permille: int = 50
    spins_power_permille: int = 400
    spins_power_alone_permille: int = 250  # ours, where the use of memory is not told: small kernels may draw more
    spins_least_watts: int = 40  # what boards of 60 to 75 W draw at their clocks, with nothing to do (T4, L4)
    spins_link_kb_per_ms: int = 10
    wholly_spinning_permille: int = 950
    spun_permille: int = 500  # ours: a window that spins or stands still for less of its time was at work
    slowed_permille: int = 30  # 3% of the clock
    limit_reached_permille: int = 980  # ours: of its make's power limit; less is a cap, and the rest is rounding
    limit_drawn_permille: int = 900  # ours: of its own limit, at the highest: a board that draws less is not held by it
    # Input: under 5% of the step is not input-bound (TF Profiler).
    low_permille: int = 50
    resting_permille: int = 900  # stiller and busier halves of a run that differ by less say nothing of its loader
    stuck_kb_per_ms: int = 100  # what an idle GPU's PCIe cannot carry minute after minute: a broken sensor
    worker_seen_permille: int = 200  # a loader worker that does something: a fifth of a core
    persistence_windows: int = 3  # half an hour
    dip_samples: int = 3
    # Exchange between peers: bytes over the links for each GPU and second that make a shortfall an exchange.
    exchange_kb_per_ms: int = 50
    exchange_short_permille: int = 20  # a shortfall under a fiftieth is no exchange, but the noise of samples
    exchange_ms: int = 1_000  # in a window; of less no rate is taken
    dense_sm_permille: int = 900  # SM activity of a dense model while it computes (DCGM: 0.8 and more; 0.9 is usual)
    effective_sm_permille: int = 800  # DCGM: what effective use takes at the least; a careful bound from below
    crossing_permille: int = 50  # of the time, for lying across racks: less is not worth naming (TF Profiler's 5%)
    # Of which windows a fabric is learned: its exchanges stand out for more than noise, and its ranks begin together
    # (stragglers slow 42.5% of jobs by a tenth and more, OSDI'25).
    lesson_short_permille: int = 50
    apart_permille: int = 100
    roles_permille: int = 400  # ours: of the ranks, behind: more than a few are no stragglers
    dense_tensor_permille: int = 200  # and of its tensor cores, at the least
    # Longer than ten minutes is a hang (algorithms 1.2), which is when watchdogs end it; less the minutes at both ends.
    hang_ms: int = 480_000
    hang_utilization_permille: int = 950
    hang_activity_permille: int = 350  # of its own best
    hang_power_permille: int = 450  # where no SM activity is measured: waiting peers draw 0.2 to 0.4 of the limit (1.2)
    hang_power_of_usual_permille: int = 700
    # One rank behind the others: robust z of 3.5 (algorithms 8), where ranks differ by a fiftieth anyway.
    odd_rank_milli: int = 3_500
    rank_spread_permille: int = 20
    lag_permille: int = 20
    # Another rank each time: none is waited for in more than half of it. Power falls with SM activity by two thirds and
    # more where ranks wait (training against spinning, 1.2), and not at all where a sensor errs; ours is a quarter.
    uneven_most_permille: int = 500
    uneven_power_permille: int = 250
    spinning_power_permille: int = 350  # of the limit, of a GPU that waits for its peers (1.2: 0.2 to 0.4)
    hang_link_permille: int = 50  # of the run's usual traffic
    # Busy but little of the chip (KempnerPulse: SM under 25%; DCGM's guidance: under 50% is likely ineffective).
    underused_busy_permille: int = 500
    underused_sm_permille: int = 300
    ineffective_sm_permille: int = 500  # DCGM's bound, where the GPUs exchange nothing that could take the time
    underused_tensor_permille: int = 100
    underused_dram_permille: int = 300
    underused_power_permille: int = 450  # where no SM activity is measured
    # Launch-bound (algorithms 1.2: U 80-100, SM .1-.4 without bimodality, low PCIe, P .2-.4, exactly one host thread at
    # about 100%, loaders idle).
    launching_utilization_permille: int = 800
    launching_power_permille: int = 400
    launching_activity_permille: int = 400
    launching_pcie_kb_per_ms: int = 1_000  # KempnerPulse takes 1 GB/s of PCIe for a sign of copies
    one_core_least_milli: int = 900  # a thread that fills a core, as of a loader worker
    one_core_most_milli: int = 1_500  # and what else its process does
    # What work is called that needs no remedy: bound by HBM where that is half busy and the tensor cores hardly.
    bandwidth_dram_permille: int = 500
    bandwidth_tensor_permille: int = 100
    # Services.
    kv_full_permille: int = 950  # a cache this full preempts and queues
    late_permille: int = 500  # ours: later than promised in most intervals with answers; one slow one makes none late
    covered_permille: int = 800  # a window or a look-back with gaps of more than a fifth gives no verdict (1.4)
    # Agents ask every ten seconds, and tell nothing of what happened while they missed a page for 25 (services.md).
    read_gap_ms: int = 60_000
    # Checkpoints: a dip with a burst to storage of at least a megabyte a second for each GPU.
    checkpoint_bytes_per_gpu: int = 60_000_000
    # A small state, of adapters (LoRA of 7 billion parameters: 16 to 160 MB) or of particles: a burst of the run's own.
    small_state_bytes: int = 10_000_000
    steady_write_bytes: int = (
        30_000_000  # ours: a minute and host, throughout: more than logs, and room for small states
    )
    checkpoint_dip_permille: int = 900

    @property
    def version(self) -> str:
        """The rules' version: their date and a digest of all that decides: numbers, revisions, words for stages."""
        revisions = {name: rule.revision for name, rule in RULE_OF.items()}
        text = json.dumps([self._numbers(), revisions, PATTERNS], sort_keys=True)
        return f"{_RULES}+{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    def rule_versions(self) -> dict[str, str]:
        """Return the version of each rule of findings, by its name."""
        numbers = self._numbers()
        return {name: rule.version(numbers) for name, rule in RULE_OF.items()}

    def _numbers(self) -> dict[str, int]:
        return asdict(self) | dict(FIXED)
