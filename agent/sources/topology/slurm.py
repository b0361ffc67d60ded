"""Slurm's topology.conf and topology.yaml: leaf switches are racks, what joins them blocks, what joins those zones."""

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.errors import ConfigError
from agent.sources.topology.site import MOST_NODES, Site, read_text
from agent.sources.topology.slurm_yaml import read_yaml

_SETTING = re.compile(r"(\w+)\s*=\s*(\S+)")
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_BETWEEN_NAMES = re.compile(r",(?![^\[]*\])")  # commas outside brackets
_CONTINUED = re.compile(r"\\\s*\n")


def read_slurm(path: Path) -> Mapping[str, Site]:
    """Return where each node of a topology.conf or .yaml sits: by its switches (tree plugin) or its block.

    A node under two leaf switches has no one rack, and none is claimed for it. Of several topologies in a file the
    cluster's default comes first; the others tell what it does not.

    Raises:
        ConfigError: the file cannot be read, or a host list in it is malformed or too long.
    """
    text = read_text(path)
    if path.suffix not in (".yaml", ".yml"):
        return _sites(path, [_settings(line) for line in _CONTINUED.sub(" ", text).splitlines()])
    sites: dict[str, Site] = {}
    for topology in read_yaml(path, text):
        for node, site in _sites(path, topology.lines).items():
            first = sites.get(node, Site())
            sites[node] = Site(first.rack or site.rack, first.block or site.block, first.zone or site.zone)
    return sites


def _sites(path: Path, lines: list[dict[str, str]]) -> dict[str, Site]:
    nodes, parents = _tree(path, lines)
    sites = {node: _climb(leaf, parents) for node, leaf in nodes.items()}
    for line in lines:
        if "blockname" in line:
            sites.update((node, Site(block=line["blockname"])) for node in _hosts(path, line.get("nodes", "")))
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
            raise ValueError(f"{name} stands for more than {MOST_NODES} names")
        yield from map("".join, itertools.product(*choices))


def _numbers(inside: str) -> list[str]:
    """Return `001`, `002`, `003`, `7` of `001-003,7`: the first number's width is kept."""
    numbers: list[str] = []
    for part in inside.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{part or 'nothing'} is no number and no range in [{inside}]")
        span = range(int(first), int(last or first) + 1)
        if not span or len(span) > MOST_NODES:
            raise ValueError(f"{part} is no range of at most {MOST_NODES} numbers")
        numbers.extend(str(number).zfill(len(first)) for number in span)
    return numbers


def _settings(line: str) -> dict[str, str]:
    """Return the line's settings; Slurm's keys do not heed case."""
    return {key.lower(): value for key, value in _SETTING.findall(line.split("#", 1)[0])}


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


def _climb(leaf: str | None, parents: Mapping[str, str]) -> Site:
    block = parents.get(leaf) if leaf else None
    return Site(rack=leaf, block=block, zone=parents.get(block) if block else None)


def _hosts(path: Path, text: str) -> list[str]:
    try:
        return list(hostlist(text))
    except ValueError as error:
        raise ConfigError(f"the topology file {path} cannot be understood: {error}") from error
