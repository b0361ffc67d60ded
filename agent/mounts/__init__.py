"""Network mounts of the host, and what their clients say of the traffic."""

from agent.mounts.cifs import cifs_counters
from agent.mounts.counters import MountCounters
from agent.mounts.lustre import lustre_counters
from agent.mounts.nfs import nfs_counters
from agent.mounts.table import Mount, mount_kind, network_mounts

__all__ = ["Mount", "MountCounters", "cifs_counters", "lustre_counters", "mount_kind", "network_mounts", "nfs_counters"]
