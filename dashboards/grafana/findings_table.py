"""The table of findings, which more than one dashboard shows."""

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.grafana.board import FINDING_PAGE, RUN_PAGE
from dashboards.grafana.panels import table
from dashboards.grafana.queries import ledger

_COLUMNS = {
    "finding": "Finding",
    "kind": "Why",
    "confidence": "Sure",
    "team": "Team",
    "run_id": "Run",
    "Value": "At stake",
}


def dearest_findings() -> Builder[Panel]:
    """Return the dearest open findings of the chosen teams, each with its page."""
    of_team = ledger("finding_at_stake_usd", *(name for name in _COLUMNS if name != "Value"), where='team=~"$team"')
    return table(
        "Dearest findings",
        "The 20 dearest findings of the week that are still open; each opens with its evidence.",
        "currencyUSD",
        _COLUMNS,
        f"sort_desc({of_team})",
        links={"finding": FINDING_PAGE, "run_id": RUN_PAGE},
    )
