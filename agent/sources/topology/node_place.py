"""Which rack, block and zone a node is in: from the settings, a table, or Slurm's topology.conf, in this order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.sources.topology.site import Site
from agent.sources.topology.slurm import read_slurm
from agent.sources.topology.table import read_table


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Rack, block and zone of a node; None where nobody says. `source` is who said the rack, else who said the rest."""

    rack: str | None = None
    block: str | None = None
    zone: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """What is known of where nodes sit: what the settings say of this host, then each file, by its name."""

    settings: Site = field(default_factory=Site)
    files: tuple[tuple[str, Mapping[str, Site]], ...] = ()

    def place(self, node: str) -> NodePlace:
        """Return where a node sits, each part from the first that knows it.

        A node that a file does not list by its full name is looked for by its short one.
        """
        known = [("settings", self.settings), *((name, _listed(sites, node)) for name, sites in self.files)]
        return NodePlace(
            rack=next((site.rack for _, site in known if site.rack), None),
            block=next((site.block for _, site in known if site.block), None),
            zone=next((site.zone for _, site in known if site.zone), None),
            source=next((name for name, site in known if site.rack), None)
            or next((name for name, site in known if site != Site()), None),
        )


def read_topology(
    rack: str | None = None,
    block: str | None = None,
    zone: str | None = None,
    table: Path | None = None,
    slurm: Path | None = None,
) -> Topology:
    """Read what the settings name: values for this host, a CSV table, Slurm's topology.conf.

    Raises:
        ConfigError: a file cannot be read or is not what it should be.
    """
    files: list[tuple[str, Mapping[str, Site]]] = []
    if table is not None:
        files.append((table.name, read_table(table)))
    if slurm is not None:
        files.append((slurm.name, read_slurm(slurm)))
    return Topology(Site(rack or None, block or None, zone or None), tuple(files))


def _listed(sites: Mapping[str, Site], node: str) -> Site:
    return sites.get(node) or sites.get(node.split(".", 1)[0]) or Site()
