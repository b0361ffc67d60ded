"""The words of each finding and rule, once: its name, its sentence with the parts of it, what would prove it wrong.

Sentences take `Run` ("Run llama-sft on n14-n15"), `run` ("run llama-sft"), `for_run` (" for run llama-sft", or
nothing where nobody held), `place` (hosts), `gpu` (": GPU-1abd64be on n11",
where the root is known), `share` ("41% of the time") and `limit`. What the platform did is said of its hosts and GPUs:
a test holds that no sentence of it begins with the run.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from analyzer.findings.evidence import need, need_words
from analyzer.findings.witness_signs import mark_of
from analyzer.ledger.causes.witnesses import WITNESSES
from analyzer.ledger.windows import RunWindow


@dataclass(frozen=True, slots=True)
class Words:
    """`what` stands in lists; `sentence` is whole without the figures, which whoever prints it adds.

    `past` is the sentence of what has ended, where that would be untrue of it.
    """

    what: str
    sentence: str
    wrong_if: str
    past: str = ""


WORDS: dict[tuple[str, str | None], Words] = {
    ("starved", "preprocessing"): Words(
        "input: preprocessing",
        "{Run} waits for its input {share}: {limit}.",
        "synthetic input does not make a step at least {speedup}x faster",
    ),
    ("starved", "storage"): Words(
        "input: storage",
        "The local disk of {place} is the limit{for_run}, which waits for it {share}: {limit}.",
        "the same data read from another disk does not make a step at least {speedup}x faster",
    ),
    ("starved", "network_storage"): Words(
        "input: network storage",
        "The network mount of {place} is the limit{for_run}, which waits for it {share}: {limit}.",
        "the same data read from local NVMe does not make a step at least {speedup}x faster",
    ),
    ("starved", "loader_software"): Words(
        "input: loader software",
        "{Run} waits for its input {share}: {limit}.",
        "more workers or deeper prefetching do not make a step at least {speedup}x faster",
    ),
    ("starved", "host_to_device"): Words(
        "input: host to device",
        "{Run} waits for copies from host memory to its GPUs {share}.",
        "pinned memory and asynchronous copies do not make a step at least {speedup}x faster",
    ),
    ("starved", "unknown"): Words(
        "input: cause unknown",
        "{Run} waits for its input {share}; whether for storage, its loader or copies is not known.",
        "its steps do not wait for data in that time, by the run's own clock",
    ),
    ("held_idle", "never_used"): Words(
        "idle, never used",
        "{Run} holds GPUs that it has never used, {share}.",
        "the run did work there that no GPU counter shows",
        "{Run} held GPUs that it never used, {share}.",
    ),
    ("held_idle", "held_memory"): Words(
        "idle, memory in use",
        "{Run} keeps memory on GPUs that do nothing, {share}.",
        "someone needed exactly these GPUs to stay warm",
        "{Run} kept memory on GPUs that did nothing, {share}.",
    ),
    ("held_idle", "abandoned"): Words(
        "idle, abandoned",
        "{Run} still holds GPUs that went idle, {share}.",
        "the run was about to resume",
        "{Run} went on holding GPUs after they had gone idle, {share}.",
    ),
    ("communicating", "cross_rack"): Words(
        "cross-rack transfers",
        "{Run} sends more across racks than it has to: {share} goes into transfers that would be faster inside one "
        "rack.",
        "ranks in one rack, or ordered by rack, do not shorten a step by 3% within 50 steps",
    ),
    ("communicating", "straggler"): Words(
        "stragglers",
        "The slowest GPU holds up all ranks{for_run}, {share}{gpu}.",
        "another GPU in its place does not shorten a step",
    ),
    ("communicating", "hang"): Words(
        "hang",
        "{Run} hangs {share}: every GPU spins in a collective, and nothing moves.",
        "the run's own log shows steps in that time",
    ),
    ("throttled", "thermal"): Words(
        "throttling: heat",
        "Heat slows GPUs of {place}{for_run}: {share} is lost to lower clocks.",
        "the same work at a lower room temperature runs at the same clock",
    ),
    ("throttled", "power"): Words(
        "throttling: power limit",
        "The power limit slows GPUs of {place}{for_run}: {share} is lost to lower clocks.",
        "a higher limit does not raise the clock",
    ),
    ("throttled", "hardware"): Words(
        "throttling: hardware",
        "The board slows GPUs of {place}{for_run}: {share} is lost to lower clocks.",
        "the board's power brake was applied on purpose",
    ),
    ("underused", "small_kernels"): Words(
        "underutilized: small kernels",
        "{Run} keeps its GPUs busy with little of the chip in use, {share}.",
        "two such runs side by side on one GPU are each as slow as half a GPU",
    ),
    ("underused", "launch_bound"): Words(
        "underutilized: launch-bound",
        "{Run} keeps its GPUs waiting for kernel launches {share}.",
        "CUDA graphs do not shorten a step",
    ),
    ("underused", "unbatched"): Words(
        "underutilized: unbatched",
        "{Run} serves in small batches: busy with little of the chip in use, {share}.",
        "batching does not raise requests per second at the same latency",
    ),
    ("headroom", "beyond_policy"): Words(
        "headroom beyond policy",
        "{Run} keeps more in reserve than its declared policy asks for, {share}.",
        "the policy in force asks for them",
    ),
    ("lost_work", "failed"): Words(
        "lost work: run failed",
        "{Run} failed, and what it did since its last checkpoint is lost: {share}.",
        "an undetected checkpoint holds the work",
    ),
    ("lost_work", "preempted"): Words(
        "lost work: preempted",
        "The scheduler reclaimed the GPUs of {place}, and what was done there{for_run} since the last checkpoint is "
        "lost: {share}.",
        "an undetected checkpoint holds the work",
    ),
    ("lost_work", "node_failed"): Words(
        "lost work: node failed",
        "A host of {place} failed, and what was done there{for_run} since the last checkpoint is lost: {share}.",
        "an undetected checkpoint holds the work",
    ),
    ("broken", "gpu_lost"): Words(
        "hardware down: GPU lost",
        "The driver lost GPUs of {place}{for_run}.",
        "the driver answered for them in that time",
    ),
    ("broken", "node_down"): Words(
        "hardware down: node down",
        "The host {place} was down{for_run}.",
        "the node was working in that time",
    ),
    ("broken", "hardware"): Words(
        "hardware down: hardware",
        "Hardware of {place} has failed{for_run}.",
        "the hardware passes its diagnosis",
    ),
}
# Of causes that are suspected and not booked; those of input have sentences of one kind.
_SUSPICION = Words(
    "possibly input: {cause}",
    "{Run} is low {share} without a proven cause; it looks like input starvation ({cause}).",
    "{missing}",
)
_SUSPICIONS = {
    "own_process": Words(
        "possibly its own work on the CPU",
        "{Run} is low {share} without a proven cause; its GPUs seem to wait for its own work on the CPU.",
        "no thread of the run computes while its GPUs stand still",
    ),
    "decoder": Words(
        "possibly the video decoder",
        "{Run} is low {share} without a proven cause; its video decoder is full meanwhile.",
        "frames that were decoded beforehand do not shorten a step",
    ),
    "turns": Words(
        "possibly GPUs in turns",
        "{Run} is low {share} without a proven cause; its GPUs seem to work in turns, each waiting for the others.",
        "a profile shows several of its GPUs at work at a time",
    ),
    "memory": Words(
        "possibly host memory",
        "{Run} is low {share} without a proven cause; its host is short of memory, and swaps or reclaims.",
        "the host reclaimed and swapped nothing in that time",
    ),
}


def suspicion_words(cause: str) -> Words:
    """Return the words of a suspicion."""
    return _SUSPICIONS.get(cause, _SUSPICION)


_RULES = {
    "busy, underused": "underutilized",  # as it is stored, from before states had these names
    "cross_rack": "cross-rack transfers",
    "fleet/cpu_only": "CPU-only jobs on GPU hosts",
    "fleet/drivers": "driver versions",
    "fleet/ecc/corrected": "corrected memory errors",
    "fleet/ecc/expired": "memory errors",
    "fleet/ecc/remapped": "remapped memory rows",
    "fleet/ecc/uncorrected": "uncorrected memory errors",
    "fleet/ecc/xid": "Xid errors",
    "fleet/foreign_processes": "processes of others on held GPUs",
    "fleet/foreign_processes/own": "processes of the same user beside a run",
    "fleet/fragmentation": "free GPUs while runs wait",
    "fleet/fragmentation/kept": "GPUs withheld while runs wait",
    "fleet/fragmentation/pieces": "fragmented free GPUs",
    "fleet/fragmentation/room": "free GPUs while runs wait",
    "fleet/links/errors": "RDMA port errors",
    "fleet/links/nvlink": "NVLink errors",
    "fleet/links/pcie": "PCIe errors",
    "fleet/links/speed": "RDMA port speed",
    "fleet/mixed": "serving beside training",
    "fleet/silent_agents": "silent agents",
    "fleet/zombie_memory": "memory in use without a run",
    "restore_never_seen": "no restore on record",
    "run/hbm_headroom": "GPU memory nearly full",
    "run/long_start": "long starts",
    "run/mixed_precision": "idle tensor cores (mixed precision)",
    "run/packed_stages": "CPU and GPU stages in one job",
    "run/too_large": "GPU too large for its job",
    "slow_gpu": "slow GPU",
    "waiting for input": "input starvation",
    "work lost": "lost work",
}


def rule_words(rule: str) -> str:
    """Return what people call a rule: its own name here, else the last words of its id."""
    return _RULES.get(rule) or rule.rpartition("/")[2].replace("_", " ")


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
    """Return what the limit is and, where its bytes were counted, what the run would need."""
    found = need(windows, cause or "")
    if cause in ("storage", "network_storage"):
        return need_words(found) if found is not None else "its readers are waiting"
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
        return "the cores it may use are saturated" if is_full else "its loader does not keep up"
    count = max((window.workers for window in windows if window.workers is not None), default=0)
    whose = f"the busiest of its {count:,} loader workers is" if count > 1 else "its loader worker is"
    disk = [window.disk_busy for window in windows if window.disk_busy is not None]
    idle = " while the disk idles" if disk and sum(disk) < _IDLE_DISK_PERMILLE * len(disk) else ""
    return f"{whose} at {min(100, (busiest + 5) // 10)}% of a core{idle}"


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
        return "its loader does not keep up"
    has = "has" if room in (["disk"], ["storage"]) else "have"
    return (
        f"{' and '.join(filter(None, [', '.join(room[:-1]), room[-1]]))} {has} room, so the loader itself is the limit"
    )


def _middle(values: Sequence[int | None]) -> int | None:
    """Return the upper median of what is known."""
    known = sorted(value for value in values if value is not None)
    return known[len(known) // 2] if known else None
