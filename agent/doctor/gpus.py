"""What the driver measures on this host's GPUs, gathered over all of them."""

from collections.abc import Iterable, Mapping, Sequence

from agent.doctor.finding import HostCheckLine
from agent.source import Supported, Value

# What people call the subjects, in the order in which they are told.
_BASICS = {
    "utilization": "utilization",
    "memory": "memory",
    "power": "power",
    "energy": "energy",
    "clocks": "clocks",
    "throttle": "throttle",
    "pcie": "PCIe",
    "nvlink": "NVLink",
    "xid": "XID",
    "ecc": "ECC",
    "remapped_rows": "remapped rows",
    "processes": "processes",
}
_OTHERS = {"activity": "SM, tensor and DRAM activity (GPM)"}
_OPTIONAL = ("nvlink", "remapped_rows")  # whose absence is nothing to report; nor is a GPU that is not divided


def measured(supported: Iterable[Supported]) -> list[HostCheckLine]:
    """Return what all GPUs tell, in one line, and what some or all of them do not, with the driver's reason."""
    by_subject: dict[str, list[Supported]] = {}
    for one in supported:
        by_subject.setdefault(one.subject, []).append(one)
    everywhere = [words for subject, words in _BASICS.items() if _share(by_subject.get(subject, ())) == 1]
    lines = [HostCheckLine("yes", ", ".join(everywhere))] if everywhere else []
    lines += [
        HostCheckLine("yes", words) for subject, words in _OTHERS.items() if _share(by_subject.get(subject, ())) == 1
    ]
    lacking: dict[tuple[int, int, str], list[str]] = {}  # subjects that as many GPUs lack, for the same reasons
    for subject, words in {**_OTHERS, **_BASICS}.items():
        found = by_subject.get(subject, ())
        count = sum(one.ok for one in found)
        if count < len(found) and (count or subject not in _OPTIONAL):
            reasons = "; ".join(sorted({one.reason for one in found if not one.ok and one.reason}))
            lacking.setdefault((count, len(found), reasons), []).append(words)
    return lines + [_lacking(count, of, reasons, subjects) for (count, of, reasons), subjects in lacking.items()]


def health(counts: tuple[int, int] | None, rows: Sequence[Mapping[str, Value]]) -> list[HostCheckLine]:
    """Return what is wrong with the GPUs: missing ones, lost ones, links narrower than they could be, dead memory."""
    lines = []
    if counts is not None and counts[1] < counts[0]:
        missing = f"{counts[0] - counts[1]} of {counts[0]} GPUs do not answer"
        lines.append(HostCheckLine("bad", missing, "see the kernel's log for XID 79; reset or reseat them"))
    for row in rows:
        lines += _of_one(row)
    return lines


def _of_one(row: Mapping[str, Value]) -> list[HostCheckLine]:
    uuid, lines = row.get("gpu_uuid"), []
    if row.get("up") is False:
        lines.append(HostCheckLine("bad", f"{uuid} is lost", "reset the GPU or the host"))
    width, most = row.get("pcie_width"), row.get("pcie_width_max")
    if isinstance(width, int) and isinstance(most, int) and width < most:
        lines.append(
            HostCheckLine(
                "bad", f"{uuid} has a PCIe link of {width} lanes where {most} are possible", "reseat the board"
            )
        )
    if row.get("row_remap_failure") is True:
        lines.append(
            HostCheckLine("bad", f"{uuid} could not replace a broken row of its memory", "have the board replaced")
        )
    if row.get("row_remap_pending") is True:
        lines.append(
            HostCheckLine("bad", f"{uuid} waits for a reset to replace a row of its memory", "drain and reset it")
        )
    if (action := row.get("recovery_action")) not in (None, "none"):
        lines.append(
            HostCheckLine("bad", f"{uuid}: the driver asks for {str(action).replace('_', ' ')}", "drain the host")
        )
    return lines


def _share(found: Sequence[Supported]) -> float:
    return sum(one.ok for one in found) / len(found) if found else 0.0


def _lacking(count: int, of: int, reasons: str, subjects: Sequence[str]) -> HostCheckLine:
    why = f": {reasons}" if reasons else ""
    if count:
        return HostCheckLine("some", f"{', '.join(subjects)} on {count} of {of} GPUs{why}")
    return HostCheckLine("no", f"{', '.join(subjects)}{why}")
