"""Readings are of the ledger: but for what the fleet is advised, none looks at a sample, nor grows slower with them."""

from pathlib import Path

from agent.wire.tables import TABLES
from tests.analyzer.interfaces.api_sites import site

# Who holds which GPU, and where hosts stand: as large as the fleet, not as its history.
FACTS = {"allocations", "run_aliases", "inventory", "ownership"}
READINGS = (
    "/v1/runs?since=2025-11-10",
    "/v1/runs/storage",
    "/v1/runs/storage/profile",
    "/v1/profiles?team=workers",
    "/v1/ledger?by=team&by=node_group&by=day",
    "/v1/costs?by=run",
    "/v1/findings?suspicions=true",
    "/v1/adjustments",
    "/v1/hours",
)
# What a run did over time, what is worth a look, and what is recommended of the fleet: it stands on such looks, too.
OF_SAMPLES = ("/v1/runs/storage/series", "/v1/notices", "/v1/recommendations")


def test_readings_need_no_samples(tmp_path: Path) -> None:
    """With the tables of samples gone, every reading answers as before, of the site and of a team."""
    with site(tmp_path) as small:
        before = {path: small.json(path) for path in READINGS}
        with small.fleet.store.session() as session:
            for table in set(TABLES) - FACTS:
                session.execute(f"DROP TABLE {table}")
            session.execute("UPDATE analysis SET analysed_at = analysed_at + 1")
            session.execute("DELETE FROM ledger_hours WHERE hour = (SELECT max(hour) FROM ledger_hours)")
        for path, document in before.items():
            after = small.json(path)
            assert after["generation"] != document["generation"]  # nothing of it was kept
            assert after.get("items") or after.get("entries") or path == "/v1/adjustments"
            small.json(path, "workers")
        for path in OF_SAMPLES:
            refused = small.get(path)
            assert refused.status_code == 503
            assert "_samples" not in refused.text  # nothing of the store's inside is told
