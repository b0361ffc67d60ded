"""Runs that use little of their chips, or whose chips are held below their clock."""

from bench.published.boards import NVLINKED
from bench.published.lanes import Phase, phase
from bench.published.setting import FED, OPEN, Setting, Story, kind


@kind(shapes=((1, 1), (1, 2), (1, 4)))
def launch_bound(s: Setting) -> Story:
    """A thousand small kernels a step, launched one at a time by one Python thread that fills its core.

    facebookresearch/sam2#768 (A6000: 7.3 ms of kernels in 53.7 ms, 1,185 launches; 5.9 times faster as a graph);
    algorithms.md 1.2: U 80-100, SM .1-.4, power .2-.4, one host thread at 100 %.
    """
    gpu = s.board.working(s.pick(0.08, 0.22), s.pick(0.1, 0.3), s.pick(0.01, 0.05), s.pick(0.03, 0.12))
    host = {"cpu": s.pick(1.0, 1.15), "workers": 2, "busiest": 0.05, "read": 2e6, "runq": 0.003, "mem": 6}
    work = phase("underused/launch_bound", gpu, FED, host, util=s.pick(0.84, 0.97))
    lanes = s.together(s.loading(), s.steps(s.seconds, (work, s.pick(0.05, 0.6), 0.08)))
    blind = not (s.processes or s.cgroup)  # then nothing tells a full thread
    return Story(lanes, accepts={"underused/launch_bound": {"underused/small_kernels"} if blind else set()})


@kind(shapes=((1, 1), (1, 2), (1, 4)))
def small_kernels(s: Setting) -> Story:
    """Kernels too small for the chip, queued well ahead: NVML says 100 %, a tenth to a quarter of the SMs work.

    DCGM's guidance: SM activity under .5 is likely ineffective; job_defense_shield's "model too powerful".
    """
    gpu = s.board.working(s.pick(0.1, 0.25), s.pick(0.1, 0.25), s.pick(0.01, 0.06), s.pick(0.05, 0.15))
    host = {"cpu": s.pick(0.45, 0.7), "workers": 2, "busiest": 0.08, "read": 3e6, "runq": 0.002, "mem": 6}
    work = phase("underused/small_kernels", gpu, FED, host, util=s.pick(0.97, 1.0))
    accepts = {"underused/small_kernels": {"underused/launch_bound"}}
    return Story(s.together(s.loading(), s.steps(s.seconds, (work, s.pick(0.05, 0.6), 0.05))), accepts=accepts)


def _limited(s: Setting, load: float, limit: float) -> Phase:
    """Return work under a power limit that is not the make's own: the clock that is lacking is what is lost."""
    held = s.board.running(load, limit)
    keeps = held["mhz"] / s.board.running(load)["mhz"]
    return Phase((("throttled/power", 1 - keeps), ("productive/compute", keeps)), s.work().channels | held)


@kind()
def power_capped(s: Setting) -> Story:
    """Boards held to 45-70 % of the power that they are built for: every step is longer by what the clock lacks.

    "Great Power, Great Responsibility" (MIT Lincoln, 2022): V100s at 150 of 250 W; ashalliants/ninfer-3090#72 (315 W).
    """
    limit, load = s.board.limit_watts * s.pick(0.45, 0.7), s.pick(0.85, 1.0)
    slow = _limited(s, load, limit)
    limits = dict.fromkeys(range(s.gpus), float(round(limit)))
    lanes = s.together(s.loading(), s.steps(s.seconds, (slow, s.pick(0.3, 3), 0.04)))
    return Story(lanes, limits=limits)


@kind()
def thermal(s: Setting) -> Story:
    """Bad airflow: all boards of a host slow down by heat, by 15-35 % of their clock, after ten warm minutes.

    NVIDIA/cccl#9101 (66 % of the clock); bradrlaw/ai-server#15 (throttling at 85 degrees); tensorflow/tensorflow#40042.
    """
    keeps = s.pick(0.65, 0.85)
    work = s.work().but(capped=0.0)
    hot = work.channels | {"heated": s.pick(0.6, 0.95), "hot": 22, "capped": 0.0}
    clock, watts = work.channels["mhz"] * keeps, work.channels["watts"] * keeps**2.2
    slow = Phase(
        (("throttled/thermal", 1 - keeps), ("productive/compute", keeps)), hot | {"mhz": clock, "watts": watts}
    )
    step = s.pick(0.3, 3)
    cool = s.steps(s.pick(300, 900), (work, step * keeps, 0.04))
    return Story(s.together(s.loading(), cool, s.steps(s.left(cool), (slow, step, 0.04))))


@kind(shapes=((1, 2), (1, 4), (1, 8)))
def strangers(s: Setting) -> Story:
    """Processes of others compute on the GPUs that the run holds: its steps take three times as long.

    cBio/cbio-cluster#342 (the verdicts' c02): 32 s an iteration, then over 100. A notice is due, no cause.
    """
    s.processes = True
    work = s.work()
    shared = Phase(((OPEN, 1.0),), work.channels)
    lanes = s.together(s.loading(), s.steps(s.seconds, (shared, s.pick(0.5, 4), 0.1)))
    return Story(lanes, strangers=True, accepts={OPEN: {"productive/compute"}})


@kind(shapes=((1, 1), (1, 2), (1, 4)))
def memory_pressure(s: Setting) -> Story:
    """The host's memory is full and swaps: everything waits for pages, its disk is busy with swap. Starved, but of
    no dataset's storage.

    Linux, Documentation/accounting/psi.rst (memory "some"). The ledger has no such cause, and may leave it open.
    """
    host = {"swapped": s.pick(0.2, 0.5), "blocked": s.pick(0.2, 0.4), "mem": s.memory_gib, "waiting": 0.3, "busy": 0.85}
    more = {"read": 1.5e8, "write": 1.5e8, "cpu": 1.2, "workers": 4, "busiest": 0.3, "runq": 0.01, "rwait": 2.0}
    stall = phase("starved/memory", s.board.waiting(), host, more, data_wait=1.0)
    step, share = s.pick(0.5, 4), s.pick(0.2, 0.5)
    parts = (stall, step * share, 0.5), (s.work(host, more), step * (1 - share), 0.05)
    lanes = s.together(s.loading(), s.steps(s.seconds, *parts))
    accepts = {"starved/memory": {"unexplained/", "starved/unknown"}}
    return Story(lanes, accepts=accepts, suspected=frozenset({"memory"}))


@kind(boards=NVLINKED, shapes=((2, 4), (2, 8)), copies=1)
def uneven_hosts(s: Setting) -> Story:
    """A job over two hosts whose boards are limited differently: the faster wait for the slower in each step.

    what-users-ask.md: stragglers throttle synchronous steps; mixed fleets of two power limits.
    """
    limit, share = 0.6 * s.board.limit_watts, s.pick(0.85, 1.0)
    slow, works = _limited(s, share, limit), s.work().but(s.board.running(share))
    keeps = slow.truth[1][1]
    spin = phase("communicating/straggler", s.spinning(), FED)
    swap = phase("communicating/collective", s.spinning(4e10), FED, s.peers(4e9))
    step, load = s.pick(0.5, 4), s.loading()
    late = s.lane(load, s.steps(s.seconds, (slow, step, 0.0), (swap, 0.04 * step, 0.0)))
    parts = (works, step * keeps, 0.0), (spin, step * (1 - keeps), 0.0), (swap, 0.04 * step, 0.0)
    early = s.lane(load, s.steps(s.seconds, *parts))
    half = s.gpus_per_host
    limits = dict.fromkeys(range(half), limit)
    return Story([late] * half + [early] * half, limits=limits)
