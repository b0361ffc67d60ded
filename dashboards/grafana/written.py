"""All dashboards as the JSON that Grafana reads, byte for byte the same each time."""

import json
from collections.abc import Iterator
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.grafana.dcgm import dcgm
from dashboards.grafana.finops import finops
from dashboards.grafana.fleet import fleet
from dashboards.grafana.node import node
from dashboards.grafana.run import run

# What the SDK gives every variable: one id for all of them, and keys of intervals. Grafana takes the name for the id.
_DEFAULTS = ("id", "auto", "auto_min", "auto_count")


def dashboard_files() -> Iterator[tuple[str, str]]:
    """Yield each dashboard's file name and its text."""
    for name, made in (("fleet", fleet()), ("node", node()), ("run", run()), ("finops", finops()), ("dcgm", dcgm())):
        yield f"{name}.json", _text(made)


def _text(made: Dashboard) -> str:
    found: dict[str, Any] = json.loads(JSONEncoder().encode(made.build()))
    for number, panel in enumerate(found["panels"], start=1):
        panel["id"] = number  # a link to one panel stays what it is
    found.pop("style")  # light or dark is the reader's choice
    for variable in found["templating"]["list"]:
        for key in _DEFAULTS:
            variable.pop(key, None)
    return json.dumps(_without_nulls(found), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _without_nulls(value: object) -> object:
    """Grafana's own schema takes no null but that of the lowest threshold, which stands for minus infinity."""
    if isinstance(value, dict):
        is_step = value.keys() == {"value", "color"}
        return {key: _without_nulls(one) for key, one in value.items() if one is not None or is_step}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
