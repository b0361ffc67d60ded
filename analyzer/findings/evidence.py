"""The evidence of a finding, from the windows in which its verdict was given, and what a run that waits would need.

Needed rate = bytes that came for each working GPU-second x all its GPU-seconds (reference, algorithms 1.1: DS-Analyzer
compares the rate that is delivered with the rate that GPUs take).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.wire.units import PERMILLE
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.witness_signs import mark_of
from analyzer.ledger.windows import RunWindow, per_gpu_rate
from analyzer.text.words import whole_percent

Severity = Literal["slight", "moderate", "severe"]
# TF Profiler's input-pipeline analyzer: under 5% of the step it is not input-bound, from 20% on highly.
MODERATE_PERMILLE, SEVERE_PERMILLE = 50, 200
_BYTES_PER_KB = 1000
_MIN_WORKING_PERMILLE = 20  # of less work than that, nothing can be told of the rest


@dataclass(frozen=True, slots=True)
class Need:
    """What a source delivers, and what the run would take from it; bytes a second over all hosts of the run."""

    source: str  # "the local disk"
    delivers: int
    needs: int


def need(windows: Sequence[RunWindow], cause: str) -> Need | None:
    """Return the counterfactual of waiting for this cause; None where its bytes were not counted, or nothing came."""
    if cause == "storage":
        return _need("the local disk", windows, ((window, window.block_read) for window in windows))
    if cause == "network_storage":
        return _need("the network mount", windows, ((window, window.mount_read) for window in windows))
    return _need("the loader", windows, ((window, _to_gpus(window)) for window in windows))


def _to_gpus(window: RunWindow) -> int | None:
    """Return the bytes a second that came over PCIe to all GPUs of the run, `pcie_in_kb` being of all of them."""
    if window.pcie_in_kb is None or window.ms <= 0:
        return None
    return window.pcie_in_kb * _BYTES_PER_KB * window.gpus * PERMILLE // window.ms


def _need(source: str, windows: Sequence[RunWindow], rates: Iterable[tuple[RunWindow, int | None]]) -> Need | None:
    known = [(window, rate) for window, rate in rates if rate is not None]
    wall_ms = sum(window.ms // max(1, window.gpus) for window, _ in known)
    all_ms = sum(window.ms for window, _ in known)
    working_ms = sum(window.ms * (PERMILLE - window.still) // PERMILLE for window, _ in known)
    moved = sum(rate * (window.ms // max(1, window.gpus)) for window, rate in known)  # bytes x ms / s
    if (
        not moved
        or not wall_ms
        or len(known) * 2 < len(windows)
        or working_ms * PERMILLE < all_ms * _MIN_WORKING_PERMILLE
    ):
        return None
    delivers = moved // wall_ms
    return Need(source, delivers, delivers * all_ms // working_ms)


def severity(windows: Sequence[RunWindow]) -> Severity | None:
    """Return how much of the step is waiting, in TF Profiler's bands; None without a window."""
    whole = sum(window.ms for window in windows)
    if not whole:
        return None
    waited = sum(window.waited * window.ms for window in windows) // whole
    return "slight" if waited < MODERATE_PERMILLE else "moderate" if waited < SEVERE_PERMILLE else "severe"


def need_words(need: Need) -> str:
    """Return the counterfactual in both tenses: "the disk {delivers|delivered} 1.1 GB/s, this run {needs|needed} 2"."""
    giga = need.needs >= 1_000_000_000
    unit, size = ("GB/s", 1_000_000_000) if giga else ("MB/s", 1_000_000)
    delivered, needed = f"{need.delivers / size:.1f} {unit}", f"{need.needs / size:.1f}"
    return f"{need.source} {{delivers|delivered}} {delivered}, this run {{needs|needed}} {needed}"


_WINDOW_SECONDS = 600


def reserve(windows: Sequence[RunWindow]) -> tuple[EvidenceLine | None, ...]:
    """Return what stood by, what the policy needs, and which row says so; the windows may be of several runs."""
    judged = [window for window in windows if window.needed is not None and window.replicas is not None]
    by_time = {window.window_ms: window for window in judged}  # replicas and need are the service's, in each window
    if not by_time:
        return ()
    there = sorted(window.replicas or 0 for window in by_time.values())
    needed = sorted(window.needed or 0 for window in by_time.values())
    beyond = sum((window.replicas or 0) > (window.needed or 0) for window in by_time.values())
    newest = max(judged, key=lambda window: window.window_ms)
    return (
        EvidenceLine(
            "replicas",
            f"{_range(there)}, where the policy needs {_range(needed)}",
            "<- beyond policy" if beyond * 2 >= len(by_time) else "",
        ),
        EvidenceLine("policy", newest.policy or ""),
        _answered(windows),
    )


def at_once(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    """Return how many requests a server worked on at once; None where its stack does not say."""
    told = [window for window in windows if window.running_milli is not None]
    if not told:
        return None
    mean = sum((window.running_milli or 0) * window.ms for window in told) / max(1, sum(window.ms for window in told))
    waiting = [window.waiting_milli for window in told if window.waiting_milli is not None]
    tail = f", {sum(waiting) / len(waiting) / 1000:.1f} waiting" if waiting else ""
    return EvidenceLine(
        "requests",
        f"{mean / 1000:.1f} concurrent on average per address{tail}",
        "<- unbatched" if mean <= 1_200 else "",
    )


def _answered(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    """Return the requests that these runs answered in the same windows; hours are summed over runs."""
    told = [window.requests for window in windows if window.requests is not None]
    if not told:
        return None
    return EvidenceLine(
        "requests of these runs",
        f"{sum(told):,} in the {len(told) * _WINDOW_SECONDS / 3600:,.1f} hours on standby",
    )


def _range(values: Sequence[int]) -> str:
    return str(values[0]) if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


_KILO, _MEGA, _GIGA = 1_000, 1_000_000, 1_000_000_000


def evidence(state: str, cause: str | None, windows: Sequence[RunWindow]) -> tuple[EvidenceLine, ...]:
    """Return the lines for one state and cause; signals that were not reported are left out."""
    if not windows:
        return ()
    if state in ("starved", "unexplained"):
        return _lines(
            _own_word(windows),
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
        return _lines(_chip(windows), _power(windows), at_once(windows) if cause == "unbatched" else None)
    if any(window.policy is not None for window in windows):
        return _lines(_chip(windows), *reserve(windows))
    return _lines(_chip(windows))


def speedup(windows: Sequence[RunWindow]) -> str:
    """Return how much faster a step would be without its waits, as text; at least 1.1."""
    if not windows:
        return "1.1"
    waited = sum(window.waited * window.ms for window in windows) // max(1, sum(window.ms for window in windows))
    return f"{max(1.1, 0.9 * 1000 / max(50, 1000 - waited)):.1f}"


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


def _rate(bytes_per_second: int) -> str:
    """Return "3.15 GB/s", and in MB/s what hundredths of it would round away."""
    if bytes_per_second >= _GIGA // 10:
        return f"{bytes_per_second / _GIGA:.2f} GB/s"
    return f"{bytes_per_second / _MEGA:.1f} MB/s"


def _span(values: Sequence[int]) -> str:
    low, high = (values[len(values) // 10] + 5) // 10, (values[len(values) * 9 // 10] + 5) // 10
    return f"{low}%" if low == high else f"{low}-{high}%"


def _own_word(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    """Return how long the run says that it waited; that decides, where it was told."""
    told = _known([window.data_wait for window in windows])
    return (
        EvidenceLine("waits for data", f"{_span(told)} of the time, by its own clock", "<- decides") if told else None
    )


def _workers(windows: Sequence[RunWindow], cause: str | None) -> EvidenceLine | None:
    busiest = _known([window.busiest for window in windows])
    if not busiest:
        return None
    count = _known([window.workers for window in windows])
    most = f"{count[-1]}, " if count else ""
    return EvidenceLine(
        "loader workers",
        f"{most}the busiest at {_span(busiest)} of a core",
        _limit(seen=cause == "preprocessing" and _middle(busiest) >= mark_of("preprocessing", "busiest")),
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
        _limit(seen=cause == "host_to_device" and _middle(_copied(windows)) >= mark_of("host_to_device", "copies")),
    )


def _disk(windows: Sequence[RunWindow], cause: str | None) -> EvidenceLine | None:
    busy = _known([window.disk_busy for window in windows])
    if not busy:
        return None
    read = _known([window.block_read for window in windows])
    rate = f"{_rate(_mean(read))} read, " if read else ""
    is_full = cause == "storage" and _middle(busy) >= mark_of("storage", "disk_busy")
    verdict = "has room" if _mean(busy) < 500 else _limit(seen=is_full)
    return EvidenceLine("local disks", f"{rate}{whole_percent(_mean(busy))} busy", verdict)


def _mount(windows: Sequence[RunWindow], cause: str | None) -> EvidenceLine | None:
    read = _known([window.mount_read for window in windows])
    if not read or not read[-1]:
        return None
    waiting = _known([window.waiting for window in windows])
    tail = f", {whole_percent(_mean(waiting))} of the workers waiting in the kernel" if waiting else ""
    return EvidenceLine(
        "network mount",
        f"{_rate(_mean(read))} read{tail}",
        _limit(seen=cause == "network_storage" and _middle(waiting) >= mark_of("network_storage", "waiting")),
    )


def _cores(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    used, have = (
        _known([window.cores_used_milli for window in windows]),
        _known([window.cores_milli for window in windows]),
    )
    if used and have:
        verdict = "has room" if _mean(used) * 10 < _mean(have) * 8 else ""
        return EvidenceLine(
            "CPU", f"{_mean(used) / 1000:.0f} of {_mean(have) / 1000:.0f} allocated cores busy", verdict
        )
    busy = _known([window.cpu_busy for window in windows])
    return (
        EvidenceLine(
            "CPU", f"{whole_percent(_mean(busy))} of the host's cores busy", "has room" if _mean(busy) < 700 else ""
        )
        if busy
        else None
    )


def _spinning(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    busy, tensor = _known([window.utilization for window in windows]), _known([window.tensor for window in windows])
    if not busy:
        return None
    tail = f", tensor cores {whole_percent(_mean(tensor))}" if tensor else ""
    return EvidenceLine("GPUs", f"busy {whole_percent(_mean(busy))} as nvidia-smi reports it{_sm(windows)}{tail}")


def _fabric(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    rates = _known([None if window.rdma_out is None else window.rdma_out // (600 * window.nodes) for window in windows])
    return EvidenceLine("RDMA ports", f"{_mean(rates) / _GIGA:.2f} GB/s out of each host on average") if rates else None


def _clock(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    worst = max(window.slowed_most for window in windows)
    return EvidenceLine("SM clock", f"down by up to {whole_percent(worst)} on the slowest GPU") if worst >= 30 else None


def _power(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    power = _known([window.power for window in windows])
    return EvidenceLine("board power", f"{whole_percent(_mean(power))} of its limit") if power else None


def _chip(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    busy = _known([window.utilization for window in windows])
    return (
        EvidenceLine("GPUs", f"busy {whole_percent(_mean(busy))} as nvidia-smi reports it{_sm(windows)}")
        if busy
        else None
    )


def _sm(windows: Sequence[RunWindow]) -> str:
    """Return SM activity where it was measured; elsewhere a window's activity is the driver's."""
    measured = [window.activity for window in windows if window.sm_ms]
    return f", SM activity {whole_percent(_mean(measured))}" if measured else ""
