"""The screen: one line a GPU and holder, for a terminal of 80 columns and more."""

from collections.abc import Mapping

from agent.top.now import GpuNow, HoldingRun, HostNow, slowed
from agent.wire.units import GIB

_UNKNOWN = "-"
NARROWEST, _WIDE = 64, 100  # from WIDE on there is room for users
_WORDS = {"thermal": "heat", "hardware": "board", "power": "power", "sync_boost": "peers"}
_HEAD = f"{'GPU':>3}{'UTIL':>6}{'SM':>6}{'HBM':>7}{'W':>6}{'C':>5}  {'NOW':<6}{'SLOWED':<11}{'PROCS':>5}  "
_FOOT = (
    "NOW: lost, busy, or quiet (no kernel in the agent's last seconds). HBM in GiB.",
    "Why, and at what price: gpuledger top --node {node} --server URL",
)


def screen(now: HostNow, before: HostNow | None, seconds: float, width: int) -> list[str]:
    """Return the lines; `before` is the look `seconds` earlier, without which nobody knows what was slowed since."""
    width = max(NARROWEST, width)
    earlier = {gpu.gpu_uuid: gpu for gpu in before.gpus} if before is not None else {}
    count = sum(not gpu.parent_uuid for gpu in now.gpus)
    title = f"host {_clean(now.node) or _UNKNOWN}   {count} GPU{'s' * (count != 1)}"
    user = f"{'USER':<12}" if width >= _WIDE else ""
    lines = [f"{title}   agent {_clean(now.agent_version) or _UNKNOWN}", "", f"{_HEAD}{user}HELD BY"]
    split = {gpu.parent_uuid for gpu in now.gpus}
    for gpu in now.gpus:
        nobody = "(nobody)" if gpu.lists_holders else "(not known)"
        lines += _lines(gpu, earlier, seconds, width, nobody="(split)" if gpu.gpu_uuid in split else nobody)
    if not now.gpus:
        lines.append("  the agent sees no GPU; gpuledger agent doctor says why")
    foot = [line.format(node=_clean(now.node) or "HOST") for line in _FOOT]
    return [line[:width].rstrip() for line in [*lines, "", *foot]]


def _lines(gpu: GpuNow, earlier: Mapping[str, GpuNow], seconds: float, width: int, nobody: str) -> list[str]:
    figures = (
        f"{_index(gpu):>3}{_percent(gpu.utilization_ratio):>6}{_percent(gpu.sm_active_ratio):>6}"
        f"{_gib(gpu.memory_used_bytes):>7}{_whole(gpu.power_watts):>6}{_whole(gpu.temperature_celsius):>5}"
        f"  {state(gpu):<6}{_slowed(earlier.get(gpu.gpu_uuid), gpu, seconds):<11}"
    )
    rest = [_holder(one, width) for one in gpu.held] or [f"{_UNKNOWN:>5}  {' ' * 12 * (width >= _WIDE)}{nobody}"]
    return [(figures if place == 0 else " " * len(figures)) + one for place, one in enumerate(rest)]


def state(gpu: GpuNow) -> str:
    """Return what can honestly be said of one moment: idle, starved and the like need the ledger's hours."""
    if gpu.up is False:
        return "lost"
    ran = gpu.utilization_ratio if gpu.utilization_ratio is not None else gpu.sm_active_ratio  # the latter of MIG
    return _UNKNOWN if ran is None else "busy" if ran > 0 else "quiet"


def _index(gpu: GpuNow) -> str:
    number = _UNKNOWN if gpu.index is None else str(gpu.index)
    return f"{number}*" if gpu.parent_uuid else number  # a MIG instance bears its GPU's number


def _holder(one: HoldingRun, width: int) -> str:
    short = one.run_id.rpartition("/")[2]
    name = f"{one.name} {short}" if one.name and one.name != one.run_id else short
    user = f"{_clean(one.user)[:11]:<12}" if width >= _WIDE else ""
    return f"{_UNKNOWN if one.processes is None else one.processes:>5}  {user}{_clean(name)}"


def _slowed(before: GpuNow | None, now: GpuNow, seconds: float) -> str:
    if before is None:
        return _UNKNOWN
    found = slowed(before, now, seconds)
    return "" if found is None else f"{_WORDS[found[0]]} {_percent(found[1])}"


def _percent(ratio: float | None) -> str:
    return _UNKNOWN if ratio is None else f"{round(100 * ratio)}%"


def _gib(count: int | None) -> str:
    return _UNKNOWN if count is None else f"{count / GIB:.1f}"


def _whole(value: float | None) -> str:
    return _UNKNOWN if value is None else str(round(value))


def _clean(text: str) -> str:
    """Return a name without what would move the cursor: names of jobs are anybody's."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
