"""The numbers by which is judged, each with its source. Their digest is the rules' version on every ledger row."""

import hashlib
import json
from dataclasses import asdict, dataclass

RULES = "2026-11-22"  # raised by hand when the SQL or a detector changes its judgement


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Shares are permille, times milliseconds. Sources: reference works named beside each number."""

    # What is work at all. Idle is left at 5 % and entered at 1 % (hysteresis; KempnerPulse, gpud).
    active_permille: int = 50
    # First work: the first sign of life, or the first busy sample within three minutes of it, which compiling precedes.
    begun_permille: int = 300
    warm_up_ms: int = 180_000
    quiet_permille: int = 10
    # A pause of ten minutes is a state of its own; thirty are an abandoned GPU (TF Profiler has no such rule;
    # job_defense_shield warns after 60 min, cancels after 120: ours only books).
    quiet_ms: int = 600_000
    abandoned_ms: int = 1_800_000
    held_mb: int = 500  # a CUDA context alone is 300 to 500 MB
    starting_ms: int = 900_000  # DESIGN: 15 min at most, then never used
    gap_ms: int = 600_000  # longer silence is an agent that is down
    # The run's own best: its P90, not P95, which the noise of short intervals lifts above what the run ever averages.
    yardstick_permille: int = 900
    deadband_permille: int = 960  # within 4 % of its best a run is at its best
    spinning_permille: int = 180  # SM activity of a collective that only waits: 24 NCCL blocks on 132 SMs (H100)
    decode_permille: int = 450  # HBM busier than this is work of its own kind, no spinning (inference decodes at 50 %)
    full_permille: int = 950  # a utilization average above this holds no stall worth naming
    slowed_permille: int = 30  # 3 % of the clock
    # Input: under 5 % of the step is not input-bound (TF Profiler).
    low_permille: int = 50
    much_permille: int = 200  # and from 20 % highly so
    worker_full_permille: int = 900  # a loader worker that fills its core (algorithms.md 1.2)
    cpu_throttled_permille: int = 50
    pressure_cpu_permille: int = 200
    pressure_io_permille: int = 100
    disk_busy_permille: int = 800
    waiting_permille: int = 300  # share of loader workers in uninterruptible sleep
    # Copies from pageable memory take a stall to 3 GB/s and more (25 GB/s pinned, Gen4), of input that is worth it.
    copy_kb_per_ms: int = 3_000
    copied_kb_per_ms: int = 500
    stuck_kb_per_ms: int = 100  # what an idle GPU's PCIe cannot carry minute after minute: a broken sensor
    worker_seen_permille: int = 200  # a loader worker that does something: a fifth of a core
    # Input that comes over the network, to readers that do not wait in the kernel (FUSE, S3, other hosts).
    network_in_kb_per_ms: int = 20  # 20 MB/s for each GPU: more than logs and heartbeats
    network_of_local: int = 4  # times what is read from disks and mounts
    persistence_windows: int = 3  # half an hour
    dip_samples: int = 3
    dips_needed: int = 3
    # Exchange between peers: bytes over the links for each GPU and second that make a shortfall an exchange.
    exchange_kb_per_ms: int = 50
    dense_sm_permille: int = 900  # SM activity of a dense model while it computes (DCGM: 0.8 and more; 0.9 is usual)
    dense_tensor_permille: int = 200  # and of its tensor cores, at the least
    hang_utilization_permille: int = 950
    hang_activity_permille: int = 350  # of its own best
    hang_power_permille: int = 450  # where no SM activity is measured: waiting peers draw 0.2 to 0.4 of the limit (1.2)
    hang_power_of_usual_permille: int = 700
    # One rank behind the others: robust z of 3.5 (algorithms 8), where ranks differ by a fiftieth anyway.
    odd_rank_milli: int = 3_500
    rank_spread_permille: int = 20
    lag_permille: int = 20
    spinning_power_permille: int = 350  # of the limit, of a GPU that waits for its peers (1.2: 0.2 to 0.4)
    hang_link_permille: int = 50  # of the run's usual traffic
    # Busy but little of the chip (KempnerPulse: SM under 25 %; DCGM's guidance: under 50 % is likely ineffective).
    underused_busy_permille: int = 500
    underused_sm_permille: int = 300
    underused_tensor_permille: int = 100
    underused_dram_permille: int = 300
    underused_power_permille: int = 450  # where no SM activity is measured
    # Checkpoints: a dip with a burst to storage of at least a megabyte a second for each GPU.
    checkpoint_bytes_per_gpu: int = 60_000_000
    checkpoint_dip_permille: int = 900

    @property
    def version(self) -> str:
        """The rules' version: their date and a digest of every number."""
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{RULES}+{hashlib.sha256(text.encode()).hexdigest()[:8]}"
