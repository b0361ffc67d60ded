"""Where a host and its GPUs sit: node to rack, block and zone; GPU to NUMA node."""

from agent.sources.topology.device import numa_node, sysfs_bus_id
from agent.sources.topology.node_place import NodePlace, Topology, read_topology
from agent.sources.topology.slurm import hostlist
from agent.sources.topology.table import RACK_COLUMNS, TOR_COLUMNS

__all__ = [
    "RACK_COLUMNS",
    "TOR_COLUMNS",
    "NodePlace",
    "Topology",
    "hostlist",
    "numa_node",
    "read_topology",
    "sysfs_bus_id",
]
