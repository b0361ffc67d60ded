"""Where a host and its GPUs sit: node to rack, block and zone; GPU to NUMA node."""

import csv
import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.errors import ConfigError


def sysfs_bus_id(bus_id: str) -> str | None:
    """Return a PCI address as the kernel writes it (`0000:1b:00.0`), from any spelling; None where it is none.

    The driver writes eight digits of domain in capitals (`00000000:1B:00.0`), the kernel four and small.
    """
    try:
        domain, bus, rest = bus_id.strip().split(":")
        device, function = rest.split(".")
        return f"{int(domain, 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{int(function, 16):x}"
    except ValueError:
        return None


def numa_node(sysfs: Path, bus_id: str) -> int | None:
    """Return the NUMA node of a PCI device, or None where the kernel knows none.

    Source: /sys/bus/pci/devices/<address>/numa_node, -1 on machines with one node.
    """
    address = sysfs_bus_id(bus_id)
    try:
        node = int((sysfs / "bus/pci/devices" / (address or "none") / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


MOST_NODES = 200_000  # of one file
_MOST_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Rack, block and zone of a node; None where nobody says.

    Of several sources together `source` is who said the rack, else who said the rest; None within one source.
    """

    rack: str | None = None
    block: str | None = None
    zone: str | None = None
    source: str | None = None


def read_text(path: Path) -> str:
    """Return the text of a file that the settings name: of topology, or of peers.

    Raises:
        ConfigError: it cannot be read, is too large, or is no text.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ConfigError(f"{path} has more than {_MOST_BYTES} bytes; is it the right file?")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text; save it as UTF-8") from error


# A CSV table of nodes: `node,rack[,block,zone]`, or one switch a column as network operators export it.
_RACK_COLUMNS = ("node", "rack")
_TOR_COLUMNS = ("ip", "DSW", "PSW", "ASW")  # host, core, aggregation and top-of-rack switch


def read_table(path: Path) -> Mapping[str, NodePlace]:
    """Return where each node of a CSV file sits.

    In the form ip,DSW,PSW,ASW the top-of-rack switch's names repeat under each aggregation switch, so that a rack is
    both names together: `P10/S14`.

    Raises:
        ConfigError: the file cannot be read, is no CSV, has other columns, or says two things of one node.
    """
    reader = csv.DictReader(io.StringIO(read_text(path)))
    try:
        return _table_sites(path, reader)
    except csv.Error as error:
        raise ConfigError(f"{path}, line {reader.line_num}: not CSV: {error}") from error


def _table_sites(path: Path, reader: "csv.DictReader[str]") -> Mapping[str, NodePlace]:
    columns = [name.strip() for name in reader.fieldnames or ()]
    reader.fieldnames = columns
    key = _table_key(path, columns)
    sites: dict[str, NodePlace] = {}
    for row in reader:
        node = _word(row, key)
        if node is None:
            continue
        site = _switch_site(row) if key == _TOR_COLUMNS[0] else _rack_site(row)
        if sites.setdefault(node, site) != site:
            raise ConfigError(f"{path}, line {reader.line_num}: {node} is already in another rack; keep one of the two")
        if len(sites) > MOST_NODES:
            raise ConfigError(f"{path} lists more than {MOST_NODES} nodes; is it a topology file?")
    return sites


def _table_key(path: Path, columns: Sequence[str]) -> str:
    for form in (_RACK_COLUMNS, _TOR_COLUMNS):
        if set(form) <= set(columns):
            return form[0]
    message = f"{path} has the columns {', '.join(columns) or 'of an empty file'}; expected node,rack[,block,zone]"
    raise ConfigError(f"{message} or {','.join(_TOR_COLUMNS)}")


def _rack_site(row: Mapping[str, str | None]) -> NodePlace:
    return NodePlace(_word(row, "rack"), _word(row, "block"), _word(row, "zone"))


def _switch_site(row: Mapping[str, str | None]) -> NodePlace:
    core, aggregation, top = (_word(row, name) for name in _TOR_COLUMNS[1:])
    return NodePlace(rack=None if top is None else f"{aggregation}/{top}", block=aggregation, zone=core)


def _word(row: Mapping[str, str | None], name: str) -> str | None:
    return (row.get(name) or "").strip() or None


# Slurm's topology.yaml (25.05 and newer), as the settings that topology.conf has line by line.
#
# Only what Slurm documents for this file is read: lists of settings by indentation, with texts and lists of texts. A
# general reader of YAML would be a dependency on every GPU host, for one file.
_YAML_SETTING = re.compile(r"^(?P<indent> *(?P<dashes>(?:- +)*))(?P<key>[A-Za-z_]\w*) *:(?: +(?P<value>.*))?$")
_YAML_ITEM = re.compile(r"^ *- +(?P<value>[^\s:{}]+)$")
_YAML_COMMENT = re.compile(r"(?:^|\s)#.*$")
_YAML_NAMES = {"switch": "switchname", "block": "blockname", "nodes": "nodes", "children": "switches"}


@dataclass(slots=True)
class YamlTopology:
    """One topology of the file: its switches and blocks, each with the settings of a line of topology.conf."""

    is_default: bool = False
    lines: list[dict[str, str]] = field(default_factory=list)


def read_yaml(path: Path, text: str) -> list[YamlTopology]:
    """Return the topologies of the file, the cluster's default first.

    Raises:
        ConfigError: a line is of no form that Slurm documents for this file.
    """
    found: list[YamlTopology] = []
    open_items: list[tuple[int, dict[str, str]]] = []  # the column of its settings, and an item of a list
    last: tuple[dict[str, str], str] | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = _YAML_COMMENT.sub("", raw).rstrip()
        if not line or line in ("---", "..."):
            continue
        if (item := _YAML_ITEM.match(line)) and last is not None:
            values, key = last
            values[key] = ",".join(filter(None, (values[key], _unquoted(item["value"]))))
            continue
        setting = _YAML_SETTING.match(line)
        if setting is None or (setting["value"] or "").startswith(("&", "*", "|", ">", "{", "!")):
            raise ConfigError(f"{path}, line {number}: {line.strip()[:60]!r} is not in a supported form")
        last = _yaml_place(setting, open_items, found)
        if last is None:
            raise ConfigError(f"{path}, line {number}: a topology must begin with '- topology: NAME'")
    return sorted(found, key=lambda topology: not topology.is_default)


def _yaml_place(
    setting: re.Match[str], open_items: list[tuple[int, dict[str, str]]], found: list[YamlTopology]
) -> tuple[dict[str, str], str] | None:
    """Put a setting into the item that it belongs to, by its column; a dash begins an item."""
    column, key, value = len(setting["indent"]), setting["key"].lower(), _unquoted(setting["value"] or "")
    begins = bool(setting["dashes"])
    while open_items and (open_items[-1][0] > column or (begins and open_items[-1][0] == column)):
        open_items.pop()
    if begins:
        open_items.append((column, {}))
        if key == "topology":
            found.append(YamlTopology())
        elif found:
            found[-1].lines.append(open_items[-1][1])
    if not found or not open_items:
        return None
    if key == "cluster_default":
        found[-1].is_default = value.lower() in ("true", "yes", "on")
    name = _YAML_NAMES.get(key, key)
    item = open_items[-1][1]
    item[name] = value
    return item, name


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


_SLURM_SETTING = re.compile(r"(\w+)\s*=\s*(\S+)")
# Slurm's topology.conf and topology.yaml: leaf switches are racks, what joins them blocks, what joins those zones.
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_BETWEEN_NAMES = re.compile(r",(?![^\[]*\])")  # commas outside brackets
_CONTINUED = re.compile(r"\\\s*\n")


def _read_slurm(path: Path) -> Mapping[str, NodePlace]:
    """Return where each node of a topology.conf or .yaml sits: by its switches (tree plugin) or its block.

    A node under two leaf switches has no one rack, and none is claimed for it. Of several topologies in a file the
    cluster's default comes first; the others tell what it does not.

    Raises:
        ConfigError: the file cannot be read, or a host list in it is malformed or too long.
    """
    text = read_text(path)
    if path.suffix not in (".yaml", ".yml"):
        return _slurm_sites(path, [_slurm_settings(line) for line in _CONTINUED.sub(" ", text).splitlines()])
    sites: dict[str, NodePlace] = {}
    for topology in read_yaml(path, text):
        for node, site in _slurm_sites(path, topology.lines).items():
            first = sites.get(node, NodePlace())
            sites[node] = NodePlace(first.rack or site.rack, first.block or site.block, first.zone or site.zone)
    return sites


def _slurm_sites(path: Path, lines: list[dict[str, str]]) -> dict[str, NodePlace]:
    nodes, parents = _tree(path, lines)
    sites = {node: _climb(leaf, parents) for node, leaf in nodes.items()}
    for line in lines:
        if "blockname" in line:
            sites.update((node, NodePlace(block=line["blockname"])) for node in _hosts(path, line.get("nodes", "")))
    return sites


def hostlist(text: str) -> Iterator[str]:
    """Yield the names of a Slurm host list: `gpu[001-003,7],login1`, with any number of brackets in a name.

    Raises:
        ValueError: a bracket is not closed, a range is no range, or one name stands for too many.
    """
    for name in filter(None, (part.strip() for part in _BETWEEN_NAMES.split(text))):
        pieces = _BRACKETS.split(name)  # text, inside, text, inside, …, text
        if any(bracket in piece for piece in pieces for bracket in "[]"):
            raise ValueError(f"a bracket is not closed in {name}")
        choices = [_numbers(piece) if position % 2 else [piece] for position, piece in enumerate(pieces)]
        total = 1
        for choice in choices:
            total *= len(choice)
        if total > MOST_NODES:
            raise ValueError(f"{name} expands to more than {MOST_NODES} names")
        yield from map("".join, itertools.product(*choices))


def _numbers(inside: str) -> list[str]:
    """Return `001`, `002`, `003`, `7` of `001-003,7`: the first number's width is kept."""
    numbers: list[str] = []
    for part in inside.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{part or 'nothing'} is neither a number nor a range in [{inside}]")
        span = range(int(first), int(last or first) + 1)
        if not span or len(span) > MOST_NODES:
            raise ValueError(f"{part} is not a range of up to {MOST_NODES} numbers")
        numbers.extend(str(number).zfill(len(first)) for number in span)
    return numbers


def _slurm_settings(line: str) -> dict[str, str]:
    """Return the line's settings; Slurm's keys do not heed case."""
    return {key.lower(): value for key, value in _SLURM_SETTING.findall(line.split("#", 1)[0])}


def _tree(path: Path, lines: list[dict[str, str]]) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return node to leaf switch (None where it has several) and switch to the switch above it."""
    nodes: dict[str, str | None] = {}
    parents: dict[str, str] = {}
    for line in lines:
        switch = line.get("switchname")
        if switch is None:
            continue
        for node in _hosts(path, line.get("nodes", "")):
            nodes[node] = switch if nodes.get(node, switch) == switch else None
        for below in _hosts(path, line.get("switches", "")):
            parents.setdefault(below, switch)
    return nodes, parents


def _climb(leaf: str | None, parents: Mapping[str, str]) -> NodePlace:
    block = parents.get(leaf) if leaf else None
    return NodePlace(rack=leaf, block=block, zone=parents.get(block) if block else None)


def _hosts(path: Path, text: str) -> list[str]:
    try:
        return list(hostlist(text))
    except ValueError as error:
        raise ConfigError(f"the topology file {path} cannot be parsed: {error}") from error


# Which rack, block and zone a node is in: from the settings, a table, or Slurm's topology.conf, in this order.
@dataclass(frozen=True, slots=True)
class Topology:
    """What is known of where nodes sit: what the settings say of this host, then each file, by its name."""

    settings: NodePlace = field(default_factory=NodePlace)
    files: tuple[tuple[str, Mapping[str, NodePlace]], ...] = ()

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
            or next((name for name, site in known if site != NodePlace()), None),
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
    files: list[tuple[str, Mapping[str, NodePlace]]] = []
    if table is not None:
        files.append((table.name, read_table(table)))
    if slurm is not None:
        files.append((slurm.name, _read_slurm(slurm)))
    return Topology(NodePlace(rack or None, block or None, zone or None), tuple(files))


def _listed(sites: Mapping[str, NodePlace], node: str) -> NodePlace:
    return sites.get(node) or sites.get(node.split(".", 1)[0]) or NodePlace()
