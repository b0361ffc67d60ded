"""A CSV table of nodes: `node,rack[,block,zone]`, or one switch a column as network operators export it."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.errors import ConfigError
from agent.sources.topology.site import MOST_NODES, Site, read_text

RACK_COLUMNS = ("node", "rack")
TOR_COLUMNS = ("ip", "DSW", "PSW", "ASW")  # host, core, aggregation and top-of-rack switch


def read_table(path: Path) -> Mapping[str, Site]:
    """Return where each node of a CSV file sits.

    In the form ip,DSW,PSW,ASW the top-of-rack switch's names repeat under each aggregation switch, so that a rack is
    both names together: `P10/S14`.

    Raises:
        ConfigError: the file cannot be read, is no CSV, has other columns, or says two things of one node.
    """
    reader = csv.DictReader(io.StringIO(read_text(path)))
    try:
        return _sites(path, reader)
    except csv.Error as error:
        raise ConfigError(f"{path}, line {reader.line_num}: no CSV: {error}") from error


def _sites(path: Path, reader: "csv.DictReader[str]") -> Mapping[str, Site]:
    columns = [name.strip() for name in reader.fieldnames or ()]
    reader.fieldnames = columns
    key = _key(path, columns)
    sites: dict[str, Site] = {}
    for row in reader:
        node = _word(row, key)
        if node is None:
            continue
        site = _site_by_switches(row) if key == TOR_COLUMNS[0] else _site(row)
        if sites.setdefault(node, site) != site:
            raise ConfigError(f"{path}, line {reader.line_num}: {node} was in another rack before; keep one of the two")
        if len(sites) > MOST_NODES:
            raise ConfigError(f"{path} lists more than {MOST_NODES} nodes; is it a topology file?")
    return sites


def _key(path: Path, columns: Sequence[str]) -> str:
    for form in (RACK_COLUMNS, TOR_COLUMNS):
        if set(form) <= set(columns):
            return form[0]
    message = f"{path} has the columns {', '.join(columns) or 'of an empty file'}; expected node,rack[,block,zone]"
    raise ConfigError(f"{message} or {','.join(TOR_COLUMNS)}")


def _site(row: Mapping[str, str | None]) -> Site:
    return Site(_word(row, "rack"), _word(row, "block"), _word(row, "zone"))


def _site_by_switches(row: Mapping[str, str | None]) -> Site:
    core, aggregation, top = (_word(row, name) for name in TOR_COLUMNS[1:])
    return Site(rack=None if top is None else f"{aggregation}/{top}", block=aggregation, zone=core)


def _word(row: Mapping[str, str | None], name: str) -> str | None:
    return (row.get(name) or "").strip() or None
