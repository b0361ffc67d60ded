"""Where a host and its GPUs sit: node to rack, block and zone; GPU to NUMA node."""

from agent.topology.device import numa_node, sysfs_bus_id
from agent.topology.place import Place, Topology, read_topology
from agent.topology.slurm import hostlist
from agent.topology.table import RACK_COLUMNS, TOR_COLUMNS

__all__ = [
    "RACK_COLUMNS",
    "TOR_COLUMNS",
    "Place",
    "Topology",
    "hostlist",
    "numa_node",
    "read_topology",
    "sysfs_bus_id",
]
