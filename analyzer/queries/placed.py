"""Where the hosts of the ledger stood: of an hour that is closed for finance as it was then, else as it was told of it.

A host is where the last word by the end of an hour puts it, so that one that moves changes no hour before. Before the
first word it is where that puts it.
"""

import re

COLUMNS = ("node_group", "rack", "block", "zone", "region", "cpu_cores", "host_memory_bytes")
_LAST_US = 3_599_999_999  # of an hour
_FOREVER = 2**62
_LATER = "(PARTITION BY node ORDER BY started_at ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)"
_BY_NODE = "(PARTITION BY node ORDER BY started_at)"
_PLACE = f"({', '.join(COLUMNS)})"
_PLACED = re.compile(r"\{placed (\w+)\}")
_STOOD = re.compile(r"\{stood (\S+) ([^}]+)\}")


def _each(text: str) -> str:
    return ", ".join(text.format(column) for column in COLUMNS)


_SAID = _each("arg_max({0}, batch) AS {0}")
_KNOWN = _each(
    f"coalesce(last_value({{0}} IGNORE NULLS) OVER {_BY_NODE}, first_value({{0}} IGNORE NULLS) OVER {_LATER}) AS {{0}}"
)
# Of each host the spans of time in which all of its place was the same. An agent that knows no rack does not take back
# what labels said.
_DATED = f"""(
    WITH said AS (SELECT node, started_at, {_SAID} FROM inventory GROUP BY node, started_at),
    known AS (SELECT node, started_at, {_KNOWN} FROM said),
    turned AS (
        SELECT * FROM known
        QUALIFY row_number() OVER {_BY_NODE} = 1 OR {_PLACE} IS DISTINCT FROM lag({_PLACE}) OVER {_BY_NODE}
    )
    SELECT node, CASE WHEN row_number() OVER {_BY_NODE} = 1 THEN 0 ELSE started_at END AS since,
        coalesce(lead(started_at) OVER {_BY_NODE}, {_FOREVER}) AS until, {_each("{0}")} FROM turned
)"""


def placed(alias: str) -> str:
    """Return the joins that put a relation with `hour` and `node` where its hosts stood: as `h`, with COLUMNS."""
    return (
        f"LEFT JOIN {_DATED} dated ON dated.node = {alias}.node AND dated.since <= {alias}.hour + {_LAST_US} "
        f"AND dated.until > {alias}.hour + {_LAST_US} "
        f"LEFT JOIN closed_nodes shut ON shut.hour = {alias}.hour AND shut.node = {alias}.node "
        "LEFT JOIN LATERAL (SELECT "
        f"{_each('CASE WHEN shut.node IS NULL THEN dated.{0} ELSE shut.{0} END AS {0}')}) h ON true"
    )


def stood(node: str, hour: str) -> str:
    """Return the join that puts a node in an hour where it was told to stand: as `h`, by host_spans of fleet.sql."""
    end = f"{hour} + {_LAST_US}"
    return f"LEFT JOIN host_spans h ON h.node = {node} AND h.since <= {end} AND h.until > {end}"


def with_placed(text: str) -> str:
    """Return SQL with {placed l} and {stood l.node l.hour} replaced by these joins, {host spans} by that table."""
    text = _STOOD.sub(lambda found: stood(found[1], found[2]), text.replace("{host spans}", _DATED))
    return _PLACED.sub(lambda found: placed(found[1]), text)
