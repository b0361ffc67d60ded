"""The host's side of one command as text; it stands alone where no GPU was watched."""

from analyzer.interfaces.cli.recording import RecordingReport
from analyzer.reports.host_side import Device, HostSide
from analyzer.text.layout import TextLayout
from analyzer.text.words import bytes_words, percent, plain


def no_gpu_sentence(report: RecordingReport) -> str:
    """Return the answer where no GPU was watched: why not, and what the host did."""
    host, seconds = report.host, max(1, report.microseconds // 1_000_000)
    why = plain(report.header.no_gpu) or "it was not read in time"
    told = [f"No GPU was watched ({why}), so where GPU time goes is not known; this is the host's side."]
    if host.cpu_busy_ratio is not None:
        cores = f" of {host.cores} cores" if host.cores else ""
        used = f"{host.cpu_busy_ratio * (host.cores or 1):.1f}{cores}" if host.cores else _ratio(host.cpu_busy_ratio)
        told.append(f"The host kept {used} busy")
        if report.ended is not None:
            own = report.ended.command_cpu_seconds / seconds
            told[-1] += f", the command {own:.1f} of them" if host.cores else ""
        told[-1] += "."
    return " ".join(told)


def _ratio(value: float | None) -> str:
    return "-" if value is None else percent(round(value * 1000), 1000)


def host_lines(host: HostSide, layout: TextLayout) -> list[str]:
    """Return CPU, workers, memory, disks and links as lines; empty where the host reported nothing."""
    found = ["HOST"]
    if host.cpu_busy_ratio is not None:
        waiting = f", waiting for a disk {_ratio(host.cpu_iowait_ratio)}" if host.cpu_iowait_ratio is not None else ""
        text = f"{_ratio(host.cpu_busy_ratio)} busy, {_ratio(host.cpu_busy_ratio_max)} at most{waiting}"
        found += layout.labelled("CPU", text, 18)
    if host.workers_max:
        text = f"{host.workers_max} at most; the busiest used {_ratio(host.workers_busiest_cpu_ratio)} of a core"
        found += layout.labelled("workers", text, 18)
    if host.memory_used_bytes_max is not None:
        found += layout.labelled("memory", f"{bytes_words(host.memory_used_bytes_max)} at most, of the whole host", 18)
    for disk in host.disks:
        found += layout.labelled(f"disk {plain(disk.device)}"[:15], _device(disk, "read", "written"), 18)
    for link in host.links:
        found += layout.labelled(f"link {plain(link.device)}"[:15], _device(link, "in", "out"), 18)
    return found if len(found) > 1 else []


def _device(device: Device, inward: str, outward: str) -> str:
    parts = [f"{bytes_words(device.read_bytes or 0)} {inward}, {bytes_words(device.written_bytes or 0)} {outward}"]
    if device.fastest_bytes_per_second:
        parts.append(f"{bytes_words(device.fastest_bytes_per_second)}/s at most")
    if device.busy_ratio is not None:
        parts.append(f"{_ratio(device.busy_ratio)} busy at most")
    return "; ".join(parts)
