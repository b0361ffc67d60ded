"""The numbers by which notices are judged, each with its source; docs/notices.md is tested against them."""

from dataclasses import dataclass

from analyzer.ledger.thresholds import Thresholds


@dataclass(frozen=True, slots=True)
class NoticeLimits:
    """Shares are permille, times milliseconds, memory bytes. "Ours" marks a number that nobody has published."""

    # A CPU-only run on a GPU host, or one that holds GPUs and leaves them alone.
    cpu_only_ms: int = 7_200_000  # job_defense_shield cancels a run that never used its GPU after 120 minutes
    cpu_only_millicores: int = 1_000  # ours: less than one core is a daemon, not work
    long_start_ms: int = Thresholds().starting_ms  # what the ledger gives any start
    long_start_permille: int = 20  # ours: a fiftieth of what a run or service holds, spent on starting
    untouched_permille: int = 950  # ours: what starting takes of a run that never worked

    # A service beside training.
    mixed_ms: int = 3_600_000  # ours: shorter than an hour is a change of shift
    missed_permille: int = 10  # ours: of the service's time over its own promise; an SLO of 99% allows no more
    missed_factor: int = 2  # ours: worse by half again may be the time of day
    slowed_permille: int = 100  # ours: what training lost more, throttled or starved, than when alone

    # Jobs that wait while GPUs are free.
    waited_ms: int = 3_600_000  # ours: less is the scheduler's own rhythm; a whole hour of the ledger is looked at
    waited_gpu_hours: int = 8  # ours: one host's hour
    # The scheduler's words for "no room now". Others mean that the run waits for something else.
    # Slurm, job reason codes: https://slurm.schedmd.com/job_reason_codes.html
    # Kubernetes, PodScheduled=False: https://kubernetes.io/docs/concepts/scheduling-eviction/
    no_room: tuple[str, ...] = ("resources", "priority", "reqnodenotavail", "unschedulable", "insufficient")

    # GPU too large for its run: job_defense_shield, gpu_model_too_powerful.py, and jobstats' advice of MIG.
    large_run_ms: int = 3_660_000  # 61 minutes
    large_gpu_ms: int = 86_400_000  # 24 GPU-hours
    large_utilization_permille: int = 150
    large_memory_bytes: int = 10_000_000_000
    large_dram_permille: int = 100  # ours: of HBM's bandwidth, so that nothing streams through little memory
    large_tensor_permille: int = 50  # ours
    large_millicores_per_gpu: int = 12_000
    large_host_bytes_per_gpu: int = 32_000_000_000
    small_sku_factor: int = 2  # ours: a GPU of half the memory or less is worth the move

    # HBM: 10 to 20% are to stay free in steady work (the targets of those who run such fleets).
    hbm_full_permille: int = 900
    hbm_hours: int = 3  # ours: in whole hours of holding, the first left out
    hbm_flat_permille: int = 970  # ours: least over most; XLA takes 75% and vLLM 90% at the start and keep them

    # Links. DCGM, dcgm_gpu_hardware_limits.h: 8 replays a minute are the most that are recommended.
    replays_per_hour: int = 480
    # Of an RDMA port: ibdiagnet's bound of 10^-12 bit errors is 0.4 a second at 400 Gbit/s, and less of slower ports.
    # https://docs.nvidia.com/networking/display/ibdiagnetusermanualv211/bit+error+rate+(ber)
    port_errors_per_hour: int = 1_440
    port_errors_factor: int = 10  # ours: of what the ports beside it have
    peers: int = 3  # ours: of fewer there is no majority

    # Drivers: no list of bad ones, only the fleet's own majority.
    majority_permille: int = 500

    # Memory and Xid. Corrected errors: ours; DCGM's own bound (10 a minute) is marked there as a dummy.
    corrected_per_week: int = 1_000
    corrected_factor: int = 2
    weeks: int = 3
    # NVIDIA, Memory Error Management, RMA policy: the flag comes with 512 remaps, or with the ninth of one bank.
    remapped_rows: int = 8
    # NVIDIA, Xid catalog and Health Validation's checks: those whose remedy is a reset, a drain or a new board.
    hardware_xids: tuple[int, ...] = (48, 63, 64, 74, 79, 94, 95)

    # Agents.
    silent_ms: int = 3_600_000  # ours: longer than a restart, shorter than the two days in which hours close
    missed_beats_permille: int = 20  # ours: of the agent's time; an interval that is missed twice an hour is below it
    clock_offset_ms: int = 1_000  # ours: a sample's length; the ledger trusts edges only as near as the clocks

    # Memory that nobody holds.
    zombie_bytes: int = 500_000_000  # a CUDA context alone takes 300 to 500 MB
    zombie_utilization_permille: int = 500  # ours: of a whole hour; what computes has somebody, however little it keeps
    zombie_ms: int = 1_800_000  # ours: as long as the ledger waits to call a GPU abandoned

    # Processes of others on a GPU that a run holds.
    foreign_ms: int = 600_000  # ours: GPU time; less is somebody's look at a GPU
    foreign_sm_permille: int = Thresholds().foreign_permille  # as the ledger, which divides by it
    foreign_cpu_millicores: int = Thresholds().foreign_millicores

    # Tensor cores unused. DCGM's guidance: SM activity under 50% is likely ineffective use by itself.
    precision_sm_permille: int = 500
    precision_tensor_permille: int = 20
    precision_fp32_permille: int = 100  # ours
    precision_gpu_ms: int = 7_200_000  # ours: two hours, so that no start-up or evaluation is meant

    # Stages of CPU and GPU in one run: processors full, GPUs at about 20%, by turns.
    packed_gpu_permille: int = 350
    packed_cpu_full_permille: int = 800
    packed_gpu_quiet_permille: int = 100
    packed_gpu_busy_permille: int = 500
    packed_share_permille: int = 200  # ours: of the minutes, each of both stages
    packed_minutes: int = 120
    packed_turns: int = 4


LIMITS = NoticeLimits()
MIG_CAPABLE = ("A30", "A100", "H100", "H200", "H20", "GH200", "B200", "B300", "GB200", "GB300")  # NVIDIA MIG User Guide
