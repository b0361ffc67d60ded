"""What was learned of closed hours stands beside the ledger, and can be read as what it is."""

from dataclasses import replace
from pathlib import Path

from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.finops import final_month
from tests.analyzer.interfaces.api_sites import Site, collector, settings
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet
from tests.dashboards.serving import served

TEAMS = ("nlp", "language")


def test_a_correction_is_dated_and_sums_to_no_time(tmp_path: Path) -> None:
    """A run whose failure was told after its week had closed: its work was lost, and the week's rows stay."""
    fleet, chosen = Fleet(), settings(tmp_path)
    fleet.own("n1", ["g0"])
    fleet.hold("slurm/alpha/late", "n1", ["g0"], MONDAY, MONDAY + HOUR)
    fleet.sample("n1", "g0", MONDAY, MONDAY + 2 * HOUR)
    fleet.write("n1", MONDAY, MONDAY + 2 * HOUR)
    fleet.analyze(now=MONDAY + 10 * DAY, settings=chosen)
    fleet.hold("slurm/alpha/late", "n1", ["g0"], MONDAY, MONDAY + HOUR, exit_status="failed")
    later = MONDAY + 11 * DAY
    fleet.analyze(now=later, settings=chosen)
    app = create_server(ServerConfig(collector(), chosen, analyze_seconds=None), fleet.store)
    with served(app) as client:
        closed = Site(client, fleet, {}, app.state.access.registry)
        page = closed.json("/v1/adjustments?since=2025-11-10")
        assert page["total"] == {"milliseconds": 0, "cost_micros": 0}
        moved = {(row["state"], row["cause"]): row["milliseconds"] for row in page["items"]}
        assert moved == {("lost_work", "failed"): 3_600_000, ("productive", "compute"): -3_600_000}
        assert {row["recorded_at"] for row in page["items"]} == {later}
        assert {row["reason"] for row in page["items"]} == {"samples or allocations arrived or changed"}
        assert closed.items("/v1/adjustments?since=2025-11-10&limit=1") == page["items"]
        assert closed.json("/v1/adjustments?since=2025-11-10&run=late")["items"] == page["items"]
        assert closed.json(f"/v1/adjustments?since=2025-11-10&recorded_since={later + 1}")["items"] == []
        ledger = closed.json("/v1/ledger?since=2025-11-10&by=state&held=true")
        assert [row["state"] for row in ledger["items"]] == ["productive"]
        assert {hour["status"] for hour in closed.json("/v1/hours?since=2025-11-10")["items"]} == {"closed"}


def test_a_final_month_keeps_its_teams_and_lists_what_moved_between_them(tmp_path: Path) -> None:
    """Page by page both sides of each move come, and the ledger and the page say what the month was closed with."""
    fleet, rules = final_month.fleet(), final_month.Rules(rate=3_000)
    fleet.analyze(final_month.FINAL, rules.settings(tmp_path))
    chosen = replace(rules, nlp=("language", None)).settings(tmp_path)
    fleet.analyze(final_month.FINAL + HOUR, chosen)
    app = create_server(ServerConfig(collector(), chosen, analyze_seconds=None), fleet.store)
    with served(app) as client:
        final = Site(client, fleet, {}, app.state.access.registry)
        page = final.json("/v1/adjustments?since=2025-11-30&until=2025-12-01")
        moved = {team: sum(row["milliseconds"] for row in page["items"] if row["team"] == team) for team in TEAMS}
        assert moved == {"nlp": -16_800_000, "language": 16_800_000}
        assert final.items("/v1/adjustments?since=2025-11-30&until=2025-12-01&limit=1") == page["items"]
        asked = "/v1/ledger?since=2025-11-30&until=2025-11-30&by=team&held=true"
        assert {row["team"] for row in final.json(asked)["items"]} == {"nlp", "vision"}
        told = "Teams changed after 2025-11 was final; it keeps its figures, corrections are booked in 2025-12."
        assert told in final.get("/money?week=2025-11").text
