"""The evidence of a finding, from the windows in which its verdict was given: what was seen, and which is the limit."""

from collections.abc import Sequence

from analyzer.findings.finding import EvidenceLine
from analyzer.findings.rules import serving_evidence as serving
from analyzer.ledger.causes.evidence import per_gpu_rate
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow

_LIMITS = Thresholds()
_KILO, _MEGA, _GIGA = 1_000, 1_000_000, 1_000_000_000


def evidence(state: str, cause: str | None, windows: Sequence[RunWindow]) -> tuple[EvidenceLine, ...]:
    """Return the lines for one state and cause; signals that were not reported are left out."""
    if not windows:
        return ()
    if state in ("starved", "unexplained"):
        return _lines(
            _workers(windows, cause),
            _input(windows, cause),
            _disk(windows, cause),
            _mount(windows, cause),
            _cores(windows),
        )
    if state == "communicating":
        return _lines(_spinning(windows), _fabric(windows), _clock(windows))
    if state == "throttled":
        return _lines(_clock(windows), _power(windows))
    if state == "underused":
        return _lines(_chip(windows), _power(windows), serving.at_once(windows) if cause == "unbatched" else None)
    if any(window.policy is not None for window in windows):
        return _lines(_chip(windows), *serving.reserve(windows))
    return _lines(_chip(windows))


def speedup(windows: Sequence[RunWindow]) -> str:
    """Return how much faster a step would be without the stand-still, as text; at least 1.1."""
    if not windows:
        return "1.1"
    still = sum(window.still * window.ms for window in windows) // max(1, sum(window.ms for window in windows))
    return f"{max(1.1, 0.9 * 1000 / max(50, 1000 - still)):.1f}"


def _lines(*lines: EvidenceLine | None) -> tuple[EvidenceLine, ...]:
    return tuple(line for line in lines if line is not None)


def _known(values: Sequence[int | None]) -> list[int]:
    return sorted(value for value in values if value is not None)


def _middle(values: Sequence[int]) -> int:
    """Return the lower median of ascending values; -1 of none, which passes no mark."""
    return values[(len(values) - 1) // 2] if values else -1


def _limit(*, seen: bool) -> str:
    """Return the mark of the limit: where the figure beside it passes its own, and not by the verdict alone."""
    return "<- the limit" if seen else ""


def _copied(windows: Sequence[RunWindow]) -> list[int]:
    """Return what is copied to each GPU while they stand still, in kB/ms, ascending."""
    rates = [(per_gpu_rate(window, window.pcie_in_kb), window.still) for window in windows]
    return sorted(rate * 1000 // still for rate, still in rates if rate is not None and still)


def _mean(values: Sequence[int]) -> int:
    return sum(values) // len(values)


def _percent(permille: int) -> str:
    return f"{(permille + 5) // 10} %"


def _rate(bytes_per_second: int) -> str:
    """Return "3.15 GB/s", and in MB/s what hundredths of it would round away."""
    if bytes_per_second >= _GIGA // 10:
        return f"{bytes_per_second / _GIGA:.2f} GB/s"
    return f"{bytes_per_second / _MEGA:.1f} MB/s"


def _span(values: Sequence[int]) -> str:
    low, high = (values[len(values) // 10] + 5) // 10, (values[len(values) * 9 // 10] + 5) // 10
    return f"{low} %" if low == high else f"{low}-{high} %"


def _workers(windows: Sequence[RunWindow], cause: str | None) -> EvidenceLine | None:
    busiest = _known([window.busiest for window in windows])
    if not busiest:
        return None
    count = _known([window.workers for window in windows])
    most = f"{count[-1]}, " if count else ""
    return EvidenceLine(
        "loader workers",
        f"{most}the busiest at {_span(busiest)} of a core",
        _limit(seen=cause == "preprocessing" and _middle(busiest) >= _LIMITS.worker_full_permille),
    )


def _input(windows: Sequence[RunWindow], cause: str | None) -> EvidenceLine | None:
    rates = _known(
        [
            None if window.pcie_in_kb is None else window.pcie_in_kb * window.gpus * 1000 // max(1, window.ms)
            for window in windows
        ]
    )
    if not rates or not rates[-1]:
        return None
    seen, best = _mean(rates) * _KILO, rates[len(rates) * 9 // 10] * _KILO
    return EvidenceLine(
        "input to GPUs",
        f"{_rate(seen)}; {_rate(best)} in the best tenth",
        _limit(seen=cause == "host_to_device" and _middle(_copied(windows)) >= _LIMITS.copy_kb_per_ms),
    )


def _disk(windows: Sequence[RunWindow], cause: str | None) -> EvidenceLine | None:
    busy = _known([window.disk_busy for window in windows])
    if not busy:
        return None
    read = _known([window.block_read for window in windows])
    rate = f"{_rate(_mean(read))} read, " if read else ""
    is_full = cause == "storage" and _middle(busy) >= _LIMITS.disk_busy_permille
    verdict = "has room" if _mean(busy) < 500 else _limit(seen=is_full)
    return EvidenceLine("local disks", f"{rate}{_percent(_mean(busy))} busy", verdict)


def _mount(windows: Sequence[RunWindow], cause: str | None) -> EvidenceLine | None:
    read = _known([window.mount_read for window in windows])
    if not read or not read[-1]:
        return None
    waiting = _known([window.waiting for window in windows])
    tail = f", {_percent(_mean(waiting))} of the workers waiting in the kernel" if waiting else ""
    return EvidenceLine(
        "network mount",
        f"{_rate(_mean(read))} read{tail}",
        _limit(seen=cause == "network_storage" and _middle(waiting) >= _LIMITS.waiting_permille),
    )


def _cores(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    used, have = (
        _known([window.cores_used_milli for window in windows]),
        _known([window.cores_milli for window in windows]),
    )
    if used and have:
        verdict = "has room" if _mean(used) * 10 < _mean(have) * 8 else ""
        return EvidenceLine("CPU", f"{_mean(used) / 1000:.0f} of {_mean(have) / 1000:.0f} allotted cores busy", verdict)
    busy = _known([window.cpu_busy for window in windows])
    return (
        EvidenceLine(
            "CPU", f"{_percent(_mean(busy))} of the host's cores busy", "has room" if _mean(busy) < 700 else ""
        )
        if busy
        else None
    )


def _spinning(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    busy, tensor = _known([window.utilization for window in windows]), _known([window.tensor for window in windows])
    if not busy:
        return None
    tail = f", tensor cores {_percent(_mean(tensor))}" if tensor else ""
    return EvidenceLine("GPUs", f"busy {_percent(_mean(busy))} in the driver's sense{_sm(windows)}{tail}")


def _fabric(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    rates = _known([None if window.rdma_out is None else window.rdma_out // (600 * window.nodes) for window in windows])
    return EvidenceLine("RDMA ports", f"{_mean(rates) / _GIGA:.2f} GB/s out of each host on average") if rates else None


def _clock(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    worst = max(window.slowed_most for window in windows)
    return EvidenceLine("SM clock", f"down by up to {_percent(worst)} on the slowest GPU") if worst >= 30 else None


def _power(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    power = _known([window.power for window in windows])
    return EvidenceLine("board power", f"{_percent(_mean(power))} of its limit") if power else None


def _chip(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    busy = _known([window.utilization for window in windows])
    return EvidenceLine("GPUs", f"busy {_percent(_mean(busy))} in the driver's sense{_sm(windows)}") if busy else None


def _sm(windows: Sequence[RunWindow]) -> str:
    """Return SM activity where it was measured; elsewhere a window's activity is the driver's."""
    measured = [window.activity for window in windows if window.sm_ms]
    return f", SM activity {_percent(_mean(measured))}" if measured else ""
