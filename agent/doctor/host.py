"""What this host shows beside its GPUs: disks, networks, processes, who holds what, and where the host sits."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agent.doctor.finding import HostCheckLine
from agent.procfs import text
from agent.settings.config import AgentConfig
from agent.source import Value

_INIT = 1  # root's, and there whenever anything is
_CAP_SYS_PTRACE = 19  # linux/capability.h
_CAPABILITIES = re.compile(r"^CapEff:\s+([0-9a-f]+)", re.MULTILINE)
_SLURM = ("fs/cgroup/system.slice/*slurmstepd.scope", "fs/cgroup/*/slurm*/uid_*")
_PODS = ("fs/cgroup/kubepods*", "fs/cgroup/*/kubepods*")

_Tables = Mapping[str, Sequence[Mapping[str, Value]]]


def feeds(tables: _Tables, config: AgentConfig) -> list[HostCheckLine]:
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


def holders(config: AgentConfig) -> list[HostCheckLine]:
    """Return by which ways a GPU's holder is found on this host."""
    found = []
    if _any(config.sys, _SLURM):
        version = "v2" if (config.sys / "fs/cgroup/cgroup.controllers").exists() else "v1"
        found.append(HostCheckLine("yes", f"Slurm jobs (cgroup {version})"))
    if config.kubelet is not None and config.kubelet.exists():
        if os.access(config.kubelet, os.R_OK | os.W_OK):
            found.append(HostCheckLine("yes", "Kubernetes pods (kubelet)"))
        else:
            found.append(
                HostCheckLine(
                    "no", f"Kubernetes pods: {config.kubelet} is closed to this user", "give the agent's user access"
                )
            )
    elif _any(config.sys, _PODS):
        found.append(
            HostCheckLine("some", "Kubernetes pods by their cgroups, without their names", "mount the kubelet's socket")
        )
    for directory, what in ((config.jobstats, "jobstats"), (config.dcgm_mapping, "dcgm-exporter's mapping")):
        if directory is not None and directory.is_dir():
            found.append(HostCheckLine("yes", f"holders by {what} files, also where no process runs"))
    return found or [
        HostCheckLine(
            "some",
            "no scheduler here: a GPU belongs to the user of its processes",
            "start runs with gpuledger run, or set GPULEDGER_RUN_ID",
        )
    ]


def processes(config: AgentConfig) -> list[HostCheckLine]:
    """Return what of other users' processes may be seen."""
    if not (config.proc / str(_INIT) / "stat").exists():
        words = f"processes of other users, and so who holds a GPU: {config.proc} hides them (hidepid)"
        return [HostCheckLine("no", words, "remount it with gid= of the agent's group")]
    lines = [HostCheckLine("yes", "CPU use of loader workers (world-readable)")]
    if may_trace(text(config.proc / "self/status") or ""):
        return [*lines, HostCheckLine("yes", "bytes and environments of other users' processes (CAP_SYS_PTRACE)")]
    hidden = "bytes that other users' processes read: needs CAP_SYS_PTRACE"
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
    return [HostCheckLine("no", "rack: nobody says", 'set rack = "...", topology_slurm or topology_table = "file.csv"')]


def may_trace(status: str) -> bool:
    """Return whether the process of this /proc/<pid>/status may look into those of others."""
    match = _CAPABILITIES.search(status)
    return match is not None and bool(int(match[1], 16) >> _CAP_SYS_PTRACE & 1)


def _any(sys: Path, patterns: Iterable[str]) -> bool:
    return any(next(sys.glob(pattern), None) is not None for pattern in patterns)
