"""Examine this host: its GPUs, what feeds them, who holds them, what measuring costs, and what leaves it."""

import contextlib
import os
import pwd
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from agent.child import installed_version
from agent.clock import Clock
from agent.config import AgentConfig
from agent.connection import PORTS, ask, is_loopback
from agent.procfs import cpu_seconds, rss_bytes, text
from agent.quantity import counted
from agent.sampling.sampler import UNHURRIED_SECONDS, Sampler, Stamped, tables_of
from agent.sampling.wiring import HostSources, open_host_sources, open_stamper
from agent.source import Source, Supported, Tables, Value
from agent.wire.contract import Table
from agent.wire.envelope import encode
from agent.wire.tables import TABLES
from agent.wire.units import HOUR_SECONDS, SECOND_US

HostAnswer = Literal["yes", "some", "no", "bad"]


@dataclass(frozen=True, slots=True)
class HostCheckLine:
    """`bad` is a failure that needs fixing, and makes the command's exit code 1; `no` only says what is not."""

    answer: HostAnswer
    what: str
    remedy: str = ""


# What the driver measures on this host's GPUs, gathered over all of them.
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


def measured_lines(supported: Iterable[Supported]) -> list[HostCheckLine]:
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


def health_lines(counts: tuple[int, int] | None, rows: Sequence[Mapping[str, Value]]) -> list[HostCheckLine]:
    """Return what is wrong with the GPUs: missing ones, lost ones, links narrower than they could be, dead memory."""
    lines = []
    if counts is not None and counts[1] < counts[0]:
        missing = f"{counts[0] - counts[1]} of {counts[0]} GPUs not responding"
        lines.append(HostCheckLine("bad", missing, "check the kernel log for XID 79; reset or reseat them"))
    for row in rows:
        lines += _of_one(row)
    return lines


def _of_one(row: Mapping[str, Value]) -> list[HostCheckLine]:
    uuid, width, most = row.get("gpu_uuid"), row.get("pcie_width"), row.get("pcie_width_max")
    is_narrow = isinstance(width, int) and isinstance(most, int) and width < most
    action = row.get("recovery_action") or "none"
    faults = (
        (row.get("up") is False, f"{uuid} is lost", "reset the GPU or the host"),
        (is_narrow, f"{uuid} has a PCIe link of {width} lanes; it supports {most}", "reseat the board"),
        (
            row.get("row_remap_failure"),
            f"{uuid} could not remap a broken memory row",
            "replace the board",
        ),
        (
            row.get("row_remap_pending"),
            f"{uuid} needs a reset to remap a memory row",
            "drain and reset it",
        ),
        (action != "none", f"{uuid}: the driver recommends {str(action).replace('_', ' ')}", "drain the host"),
    )
    return [HostCheckLine("bad", what, remedy) for is_so, what, remedy in faults if is_so]


def _share(found: Sequence[Supported]) -> float:
    return sum(one.ok for one in found) / len(found) if found else 0.0


def _lacking(count: int, of: int, reasons: str, subjects: Sequence[str]) -> HostCheckLine:
    why = f": {reasons}" if reasons else ""
    if count:
        return HostCheckLine("some", f"{', '.join(subjects)} on {count} of {of} GPUs{why}")
    return HostCheckLine("no", f"{', '.join(subjects)}{why}")


# What this host shows beside its GPUs: disks, networks, processes, who holds what, and where the host sits.
_INIT = 1  # root's, and there whenever anything is
_CAP_SYS_PTRACE = 19  # linux/capability.h
_CAPABILITIES = re.compile(r"^CapEff:\s+([0-9a-f]+)", re.MULTILINE)
_SLURM = ("fs/cgroup/*/*slurmstepd*.scope", "fs/cgroup/*.slice/*.slice/*slurmstepd*.scope", "fs/cgroup/*/*slurm*/uid_*")
_JOBS = {  # of schedulers that the agent knows by their cgroups alone
    "PBS": ("fs/cgroup/*pbs*/job*", "fs/cgroup/*/*pbs*/job*"),
    "LSF": ("fs/cgroup/lsf/*/job.*", "fs/cgroup/*/lsf/*/job.*"),
    "HTCondor": ("fs/cgroup/*condor*/*slot*", "fs/cgroup/*/*condor*/*slot*"),
}
_PODS = ("fs/cgroup/kubepods*", "fs/cgroup/*/kubepods*")

_Tables = Mapping[str, Sequence[Mapping[str, Value]]]


def _feed_lines(tables: _Tables, config: AgentConfig) -> list[HostCheckLine]:
    """Return which of the things that feed GPUs are seen."""
    mounts = {str(row.get("mount_kind")) for row in tables.get("disk_samples", ())}
    links = {str(row.get("link_kind")) for row in tables.get("network_samples", ())}
    seen = [
        "disks" if "block" in mounts else "",
        *(name for kind, name in (("nfs", "NFS"), ("lustre", "Lustre"), ("fuse", "FUSE")) if kind in mounts),
        "network" if links else "",
        "InfiniBand ports" if "infiniband" in links else "",
        "RoCE ports" if "roce" in links else "",
        "TCP peers" if config.flows else "",
    ]
    lines = [HostCheckLine("yes", ", ".join(filter(None, seen)))] if any(seen) else []
    if "fuse" in mounts:
        lines.append(HostCheckLine("no", "bytes over FUSE mounts: the kernel does not count them"))
    if not tables.get("host_samples"):
        lines.append(
            HostCheckLine("bad", "CPU and memory of the host cannot be read", f"mount procfs at {config.proc}")
        )
    return lines


def holder_lines(config: AgentConfig) -> list[HostCheckLine]:
    """Return by which ways a GPU's holder is found on this host."""
    found = []
    if _any(config.sys, _SLURM):
        version = "v2" if (config.sys / "fs/cgroup/cgroup.controllers").exists() else "v1"
        found.append(HostCheckLine("yes", f"Slurm jobs (cgroup {version})"))
    found += [HostCheckLine("yes", f"{name} jobs (cgroup)") for name, where in _JOBS.items() if _any(config.sys, where)]
    if config.kubelet is not None and config.kubelet.exists():
        if os.access(config.kubelet, os.R_OK | os.W_OK):
            found.append(HostCheckLine("yes", "Kubernetes pods (kubelet)"))
        else:
            found.append(
                HostCheckLine(
                    "no",
                    f"Kubernetes pods: {config.kubelet} cannot be opened by this user",
                    "give the agent's user access",
                )
            )
    elif _any(config.sys, _PODS):
        found.append(
            HostCheckLine("some", "Kubernetes pods by cgroup, without their names", "mount the kubelet's socket")
        )
    for directory, what in ((config.jobstats, "jobstats"), (config.dcgm_mapping, "dcgm-exporter's mapping")):
        if directory is not None and directory.is_dir():
            found.append(HostCheckLine("yes", f"GPU holders from {what} files, even with no process running"))
    return found or [
        HostCheckLine(
            "some",
            "no scheduler here: a GPU is attributed to the user of its processes",
            "start runs with gpuledger run, or set GPULEDGER_RUN_ID",
        )
    ]


def process_lines(config: AgentConfig, hidden_holders: int) -> list[HostCheckLine]:
    """Return what of other users' processes may be seen; `hidden_holders` are those that the driver alone shows."""
    if not (config.proc / str(_INIT) / "stat").exists():
        words = f"other users' processes, and so who holds a GPU: hidden by {config.proc} (hidepid)"
        return [HostCheckLine("no", words, "remount it with gid= set to the agent's group")]
    lines = [HostCheckLine("yes", "CPU use of loader workers (world-readable)")]
    if hidden_holders:
        lines = [
            HostCheckLine(
                "some",
                f"{hidden_holders} holder{'s' * (hidden_holders > 1)} of GPUs {'are' if hidden_holders > 1 else 'is'} "
                f"not visible in {config.proc}: nobody knows whose work that is",
                "run the agent in the host's PID namespace (hostPID), or remount procfs with gid= set to its group",
            )
        ]
    if may_trace(text(config.proc / "self/status") or ""):
        return [*lines, HostCheckLine("yes", "bytes and environments of other users' processes (CAP_SYS_PTRACE)")]
    hidden = "bytes read by other users' processes: needs CAP_SYS_PTRACE"
    remedy = (
        "optional drop-in 50-process-io.conf; causes stay sure without it in most cases (disk and network totals "
        "are seen)"
    )
    return [*lines, HostCheckLine("no", hidden, remedy)]


def rack_line(tables: _Tables) -> list[HostCheckLine]:
    """Return whether the host's rack is known, without which no transfer can be called cross-rack."""
    for row in tables.get("inventory", ()):
        if row.get("rack"):
            return [HostCheckLine("yes", f"rack {row['rack']} (from {row.get('topology_source')})")]
    return [HostCheckLine("no", "rack: not known", 'set rack = "...", topology_slurm or topology_table = "file.csv"')]


def may_trace(status: str) -> bool:
    """Return whether the process of this /proc/<pid>/status may look into those of others."""
    match = _CAPABILITIES.search(status)
    return match is not None and bool(int(match[1], 16) >> _CAP_SYS_PTRACE & 1)


def _any(sys: Path, patterns: Iterable[str]) -> bool:
    return any(next(sys.glob(pattern), None) is not None for pattern in patterns)


_TIMEOUT_SECONDS = 5.0
_HEALTH = "/healthz"
_ANSWER_BYTES = 64 * 2**10


def spool_line(config: AgentConfig) -> list[HostCheckLine]:
    """Return whether this user can keep batches where the settings say; nothing where it can."""
    if not config.collector:
        return []
    place = config.spool if config.spool.exists() else config.spool.parent
    if os.access(place, os.W_OK | os.X_OK):
        return []
    return [
        HostCheckLine(
            "bad",
            f"{place} cannot be written by this user",
            "make it writable for the agent's user, or set spool to another directory",
        )
    ]


def collector_line(config: AgentConfig) -> list[HostCheckLine]:
    """Return whether the collector answers. Nothing is sent to it but the question, without the token."""
    if not config.collector:
        return [HostCheckLine("some", "no collector is set: /metrics only", 'set collector = "https://host:8470"')]
    try:
        url = config.collector.rstrip("/") + _HEALTH
        status = ask(url, timeout_seconds=_TIMEOUT_SECONDS, most_bytes=_ANSWER_BYTES, authority=config.ca_file).status
    except (OSError, ValueError) as error:
        host = urlsplit(config.collector).hostname
        what = f"the collector at {config.collector} is not responding ({error})"
        return [HostCheckLine("bad", what, f"check that {host} is reachable from here, and its certificate")]
    if status != HTTPStatus.OK:
        return [HostCheckLine("bad", f"{config.collector}{_HEALTH} answers {status}", "check the collector's log")]
    untried = "; the token was not tried (see the agent's log)" if config.token else ""
    return [HostCheckLine("yes", f"the collector responds at {config.collector}{untried}")]


# What the agent costs this host, and how much it sends: measured here and now, over a few beats.
_BEATS = 4
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Cost:
    """Share of one core and bytes of memory; bytes an hour as they would be sent; the rows of the last beats."""

    core_ratio: float
    memory_bytes: int | None
    bytes_per_hour: float
    tables: Tables
    failing: dict[str, str]


def measure(config: AgentConfig, sources: Sequence[Source], clock: Clock) -> Cost:
    """Read everything a few times and return what that took, at the beat of the settings.

    Every source is read at each of these beats, also those that the agent reads more rarely, so that this is the most
    that it takes.
    """
    stamper = open_stamper(config)
    sampler = Sampler(stamper, sources, clock, _PAUSE_SECONDS, hang_seconds=UNHURRIED_SECONDS)
    said = sampler.beat(everything=True)  # opens what is opened once, and measures no interval
    before, sent = cpu_seconds(), 0
    for _ in range(_BEATS):
        clock.wait_until(clock.monotonic() + round(_PAUSE_SECONDS * SECOND_US), threading.Event())
        beat = sampler.beat(everything=True)
        sent += len(encode(agent=config.node_name, stream="doctor", sequence=0, sent_at=0, tables=tables_of(beat)))
        said += beat
    took = cpu_seconds() - before
    sampler.close()
    beats_per_hour = HOUR_SECONDS / config.beat_seconds
    return Cost(
        core_ratio=took / _BEATS / config.beat_seconds,
        memory_bytes=rss_bytes(config.proc),
        bytes_per_hour=sent / _BEATS * beats_per_hour,
        tables=_newest(said),
        failing=sampler.failing,
    )


def _newest(said: Sequence[Stamped]) -> Tables:
    """Return of each source and table the newest rows that there were; facts are told once, and stay true."""
    newest: dict[tuple[str, str], list[dict[str, Value]]] = {}
    for one in said:
        newest |= {(one.source, name): rows for name, rows in one.tables.items() if rows}
    tables: Tables = {}
    for (_, name), rows in newest.items():
        tables.setdefault(name, []).extend(rows)
    return tables


# What leaves this host, said from the contract and the settings.
_NEVER = "command lines, environment, file names, file contents, stdout"


@dataclass(frozen=True, slots=True)
class Leaving:
    """The connection, and under each heading what goes over it; `bytes_per_hour` is None where nothing goes."""

    connection: str
    rows_seconds: float
    bytes_per_hour: float | None
    identity: tuple[str, ...]
    identity_mode: str
    listens_on: str
    never: str = _NEVER


def leaving(config: AgentConfig, bytes_per_hour: float) -> Leaving:
    """Return what leaves a host with these settings."""
    return Leaving(
        connection=connection(config),
        rows_seconds=config.beat_seconds,
        bytes_per_hour=bytes_per_hour if config.collector else None,
        identity=tuple(sorted(set(identity_columns(TABLES.values())))),
        identity_mode=config.identity,
        listens_on=listens_on(config),
    )


def connection(config: AgentConfig) -> str:
    """Return where the one connection goes, in words."""
    if not config.collector:
        return "nothing: no collector is set"
    parts = urlsplit(config.collector)
    secure = "TLS" if parts.scheme == "https" else "not encrypted"
    return f"one outbound connection, {secure}, to {parts.hostname}:{parts.port or PORTS.get(parts.scheme, 80)}"


def identity_columns(tables: Iterable[Table]) -> list[str]:
    """Return the names of the columns that may name people or projects."""
    return [column.name for table in tables for column in table.columns if column.sensitivity == "identity"]


def listens_on(config: AgentConfig) -> str:
    """Return where the agent can be reached, in words."""
    if config.address is None:
        return "nothing"
    host, port = config.address
    guarded = ", with TLS" if config.tls_certificate else ""
    asked = ", password or token required" if config.scrape_token or config.scrape_user else ""
    only = " only" if is_loopback(host) else ""
    return f"{host}:{port}{only}{guarded}{asked}"


# Examine this host: open its sources, read them a few times, ask the collector whether it is there.
@dataclass(frozen=True, slots=True)
class Examination:
    """Everything that the page says."""

    node: str
    gpus: str
    driver: str | None
    version: str
    user: str
    measures: tuple[HostCheckLine, ...]
    cost: Cost
    leaves: Leaving

    @property
    def healthy(self) -> bool:
        """Whether nothing needs fixing."""
        return all(line.answer != "bad" for line in self.measures)


def examine(config: AgentConfig) -> Examination:
    """Return what this host can measure and what leaves it. Takes some seconds; sends nothing.

    Raises:
        AgentError: a topology file is wrong, or the driver was replaced.
    """
    clock = Clock()
    host_sources = open_host_sources(config, clock.wall)
    try:
        cost = measure(config, host_sources.sources, clock)
        lines = _lines(config, host_sources, cost)
    finally:
        host_sources.close()
    inventory = cost.tables.get("inventory", [])
    skus = [str(row.get("sku") or "GPU") for row in inventory if row.get("gpu_uuid") and not row.get("parent_uuid")]
    return Examination(
        node=config.node_name,
        gpus=counted(skus) or f"no GPU ({host_sources.gpus.no_gpu or 'none responded'})",
        driver=next((str(row["driver_version"]) for row in inventory if row.get("driver_version")), None),
        version=installed_version() or "(source checkout, not installed)",
        user=_user(),
        measures=tuple(lines),
        cost=cost,
        leaves=leaving(config, cost.bytes_per_hour),
    )


def _lines(config: AgentConfig, host_sources: HostSources, cost: Cost) -> Sequence[HostCheckLine]:
    tables = cost.tables
    return [
        *measured_lines(host_sources.gpus.supported()),
        *_feed_lines(tables, config),
        *(HostCheckLine("some", words) for words in host_sources.coverage()),
        *holder_lines(config),
        *process_lines(config, host_sources.hidden_holders()),
        *rack_line(tables),
        *health_lines(host_sources.gpus.counts, tables.get("gpu_samples", [])),
        *(HostCheckLine("bad", f"{name} cannot be read: {why}") for name, why in cost.failing.items()),
        *(HostCheckLine("some", f"{name}: {why}") for name, why in host_sources.gpus.unreadable().items()),
        *spool_line(config),
        *collector_line(config),
    ]


def _user() -> str:
    name = str(os.geteuid())
    with contextlib.suppress(KeyError):
        name = pwd.getpwuid(os.geteuid()).pw_name
    return name
