"""Slurm's topology.yaml (25.05 and newer), as the settings that topology.conf has line by line.

Only what Slurm documents for this file is read: lists of settings by indentation, with texts and lists of texts. A
general reader of YAML would be a dependency on every GPU host, for one file.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from agent.errors import ConfigError

_SETTING = re.compile(r"^(?P<indent> *(?P<dashes>(?:- +)*))(?P<key>[A-Za-z_]\w*) *:(?: +(?P<value>.*))?$")
_ITEM = re.compile(r"^ *- +(?P<value>[^\s:{}]+)$")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_NAMES = {"switch": "switchname", "block": "blockname", "nodes": "nodes", "children": "switches"}


@dataclass(slots=True)
class Topology:
    """One topology of the file: its switches and blocks, each with the settings of a line of topology.conf."""

    is_default: bool = False
    lines: list[dict[str, str]] = field(default_factory=list)


def read_yaml(path: Path, text: str) -> list[Topology]:
    """Return the topologies of the file, the cluster's default first.

    Raises:
        ConfigError: a line is of no form that Slurm documents for this file.
    """
    found: list[Topology] = []
    open_items: list[tuple[int, dict[str, str]]] = []  # the column of its settings, and an item of a list
    last: tuple[dict[str, str], str] | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", raw).rstrip()
        if not line or line in ("---", "..."):
            continue
        if (item := _ITEM.match(line)) and last is not None:
            values, key = last
            values[key] = ",".join(filter(None, (values[key], _unquoted(item["value"]))))
            continue
        setting = _SETTING.match(line)
        if setting is None or (setting["value"] or "").startswith(("&", "*", "|", ">", "{", "!")):
            raise ConfigError(f"{path}, line {number}: {line.strip()[:60]!r} is of no form that is read here")
        last = _place(setting, open_items, found)
        if last is None:
            raise ConfigError(f"{path}, line {number}: a topology begins with '- topology: NAME'")
    return sorted(found, key=lambda topology: not topology.is_default)


def _place(
    setting: re.Match[str], open_items: list[tuple[int, dict[str, str]]], found: list[Topology]
) -> tuple[dict[str, str], str] | None:
    """Put a setting into the item that it belongs to, by its column; a dash begins an item."""
    column, key, value = len(setting["indent"]), setting["key"].lower(), _unquoted(setting["value"] or "")
    begins = bool(setting["dashes"])
    while open_items and (open_items[-1][0] > column or (begins and open_items[-1][0] == column)):
        open_items.pop()
    if begins:
        open_items.append((column, {}))
        if key == "topology":
            found.append(Topology())
        elif found:
            found[-1].lines.append(open_items[-1][1])
    if not found or not open_items:
        return None
    if key == "cluster_default":
        found[-1].is_default = value.lower() in ("true", "yes", "on")
    name = _NAMES.get(key, key)
    item = open_items[-1][1]
    item[name] = value
    return item, name


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value
