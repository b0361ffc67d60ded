"""The dashboards as Grafana reads them: their panels and queries."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[3] / "dashboards" / "grafana"
NAMES = ("fleet", "node", "run", "finops", "dcgm")


@dataclass(frozen=True)
class Asking:
    """One query, and the panel and the dashboard that it is of."""

    dashboard: str
    panel: dict[str, Any]
    expr: str
    legend: str

    @property
    def title(self) -> str:
        """What the panel is called."""
        return str(self.panel["title"])

    @property
    def where(self) -> str:
        """The dashboard and the panel, as a person finds it."""
        return f"{self.dashboard}: {self.title}"

    @property
    def unit(self) -> str:
        """The panel's unit, in Grafana's word."""
        return str(self.panel["fieldConfig"]["defaults"]["unit"])


def board(name: str) -> dict[str, Any]:
    """Return a dashboard."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return found


def panels(name: str) -> list[dict[str, Any]]:
    """Return its panels; rows are none."""
    return [panel for panel in board(name)["panels"] if panel["type"] != "row"]


def queries(name: str) -> Iterator[Asking]:
    """Yield its queries."""
    for panel in panels(name):
        for target in panel["targets"]:
            yield Asking(name, panel, target["expr"], target.get("legendFormat", ""))


def everything() -> list[Asking]:
    """Return the queries of all dashboards."""
    return [asking for name in NAMES for asking in queries(name)]
