"""How findings and rules are called: their rows of words.toml, and the parts that their sentences take."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from analyzer.findings.evidence import need, need_words
from analyzer.findings.witness_signs import mark_of
from analyzer.ledger.causes.witnesses import WITNESSES
from analyzer.ledger.windows import RunWindow
from analyzer.text.words import shipped_words


@dataclass(frozen=True, slots=True)
class Words:
    """`what` stands in lists; `sentence` is whole without the figures, which whoever prints it adds."""

    what: str
    sentence: str
    wrong_if: str

    def told(self, values: Mapping[str, str], *, past: bool = False) -> str:
        """Return the sentence, of what is so or of what has ended; names of others come in last."""
        return in_tense(self.sentence.replace("{limit}", values["limit"]), past=past).format(**values)


def in_tense(text: str, *, past: bool) -> str:
    """Return a text with one of two words wherever it has both, "{waits|waited}": the second of what has ended."""
    return re.sub(r"\{([^{}|]*)\|([^{}|]*)\}", r"\2" if past else r"\1", text)


_TABLE = Path(__file__).with_name("words.toml")


def rows(table: str) -> Mapping[str, Any]:
    """Return a table of words.toml: "finding", "suspicion", "rule", "notice" or "unread"."""
    return shipped_words(_TABLE)[table]


def finding_words(state: str, cause: str | None) -> Words:
    """Return the words of an avoidable cause."""
    return Words(**rows("finding")[f"{state}/{cause}"])


def suspicion_words(cause: str) -> Words:
    """Return the words of a suspicion."""
    known = rows("suspicion")
    return Words(**known.get(cause, known["input"]))


def rule_words(rule: str) -> str:
    """Return what people call a rule: its own name here, else the last words of its id."""
    return rows("rule").get(rule) or rule.rpartition("/")[2].replace("_", " ")


_HOSTS_SHOWN = 3
_IDLE_DISK_PERMILLE = 500


def run_words(name: str, runs: int) -> str:
    """Return "run llama-sft", or "job det-sweep (41 runs)" where many of one name are meant."""
    return f"run {name}" if runs <= 1 else f"job {name} ({runs:,} runs)"


def host_words(hosts: Sequence[str]) -> str:
    """Return "n14-n15", "n2, n7", or "12 hosts"; neighbours by number are put together."""
    groups = _ranges(sorted(set(hosts), key=_by_number))
    if not groups:
        return "unknown hosts"
    return ", ".join(groups) if len(groups) <= _HOSTS_SHOWN else f"{len(set(hosts)):,} hosts"


def gpu_words(gpu_uuid: str, node: str | None) -> str:
    """Return "GPU-1abd64be on n11": of a driver's UUID as much as tells it from others, and where it is."""
    match = re.fullmatch(r"((?:GPU|MIG)-[0-9a-f]{8})-[0-9a-f-]{27}", gpu_uuid)
    short = match[1] if match else gpu_uuid
    return f"{short} on {node}" if node else short


def root_words(gpu_uuid: str | None, node: str | None, roots: int) -> str:
    """Return ": GPU-1abd64be on n11", the one that others waited for longest where they did for several."""
    if gpu_uuid is None:
        return ""
    return f": {gpu_words(gpu_uuid, node)}" + (f" for the longest time, of {roots:,} in turn" if roots > 1 else "")


def _by_number(host: str) -> tuple[str, int, str]:
    match = re.fullmatch(r"(.*?)(\d{1,9})", host, re.DOTALL)
    return (match[1], int(match[2]), host) if match else (host, -1, host)


def _ranges(hosts: Sequence[str]) -> list[str]:
    found = []
    keyed = [(place, host, *_by_number(host)[:2]) for place, host in enumerate(hosts)]
    for _, group in groupby(keyed, key=lambda one: (one[2], one[3] - one[0] if one[3] >= 0 else one[1])):
        own = [host for _, host, *_ in group]
        found.append(own[0] if len(own) == 1 else f"{own[0]}–{own[-1]}")
    return found


def share_words(milliseconds: int, held_ms: int) -> str:
    """Return "41% of the time", of the time that the run held its GPUs."""
    if not held_ms:
        return "part of the time"
    percent = (200 * milliseconds + held_ms) // (2 * held_ms)
    return f"{percent}% of the time" if percent else "under 1% of the time"


def limit_words(cause: str | None, windows: Sequence[RunWindow]) -> str:
    """Return what the limit is and, where its bytes were counted, what the run would need, in both tenses."""
    found = need(windows, cause or "")
    if cause in ("storage", "network_storage"):
        return need_words(found) if found is not None else "its readers {are|were} waiting"
    said = {
        "preprocessing": _workers(windows),
        "loader_software": _with_room(windows),
    }.get(cause or "", "")
    return f"{said}; {need_words(found)}" if found is not None else said


def _workers(windows: Sequence[RunWindow]) -> str:
    """Return which processors were full, as far as any were seen to be."""
    busiest = _middle([window.busiest for window in windows])
    if busiest is None or busiest < mark_of("preprocessing", "busiest"):
        pressure = [WITNESSES["pressure_cpu"].read(window) for window in windows]
        full = (
            (_middle([window.cpu_throttled for window in windows]), mark_of("preprocessing", "quota")),
            (_middle(pressure), mark_of("preprocessing", "pressure_cpu")),
            (_middle([_used(window) for window in windows]), mark_of("preprocessing", "packed")),
        )
        is_full = any(seen is not None and seen >= mark for seen, mark in full)
        return "the cores it may use {are|were} saturated" if is_full else "its loader {does|did} not keep up"
    count = max((window.workers for window in windows if window.workers is not None), default=0)
    whose = f"the busiest of its {count:,} loader workers" if count > 1 else "its loader worker"
    disk = [window.disk_busy for window in windows if window.disk_busy is not None]
    idle = " while the disk {idles|idled}" if disk and sum(disk) < _IDLE_DISK_PERMILLE * len(disk) else ""
    return f"{whose} {{is|was}} at {min(100, (busiest + 5) // 10)}% of a core{idle}"


def _used(window: RunWindow) -> int | None:
    """Return how full a run's cores are while its GPUs stand still, in which it works on them by turns."""
    if window.cores_used_milli is None or not window.cores_milli or not window.still:
        return None
    return window.cores_used_milli * 1_000_000 // window.cores_milli // window.still


def _with_room(windows: Sequence[RunWindow]) -> str:
    """Return what of a host was seen to have room, where the loader itself is the limit."""
    looked = (
        ("disk", _middle([window.disk_busy for window in windows]), mark_of("storage", "disk_busy")),
        ("storage", _middle([window.waiting for window in windows]), mark_of("storage", "waiting")),
        ("cores", _middle([window.busiest for window in windows]), mark_of("preprocessing", "busiest")),
    )
    room = [name for name, seen, mark in looked if seen is not None and seen < mark]
    if not room:
        return "its loader {does|did} not keep up"
    have = "{has|had}" if room in (["disk"], ["storage"]) else "{have|had}"
    named = " and ".join(filter(None, [", ".join(room[:-1]), room[-1]]))
    return f"{named} {have} room, so the loader itself {{is|was}} the limit"


def _middle(values: Sequence[int | None]) -> int | None:
    """Return the upper median of what is known."""
    known = sorted(value for value in values if value is not None)
    return known[len(known) // 2] if known else None
