"""Network mounts of the host, and what their clients say of the traffic."""

from agent.sources.mounts.cifs import cifs_counters
from agent.sources.mounts.counters import MountCounters
from agent.sources.mounts.lustre import lustre_counters
from agent.sources.mounts.nfs import nfs_counters
from agent.sources.mounts.table import Mount, mount_kind, network_mounts

__all__ = ["Mount", "MountCounters", "cifs_counters", "lustre_counters", "mount_kind", "network_mounts", "nfs_counters"]
