"""A second site: a ledger with weeks of history, of which months are forecast, and an agent that has fallen silent."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx

from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.interfaces.api_sites import LATER, collector, settings
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet
from tests.analyzer.small_site import small_site
from tests.dashboards.serving import served

HISTORY_DAYS = 90
SILENT_SECONDS = 1200
BUDGET = '[[budget]]\nusd_per_month = 1_000\nfrom = 2020-01-01\nsource = "a test"\n'
SENT = {"receive_bytes": 10**12, "transmit_bytes": 10**12}
# One GPU that somebody pays for all the time, dearer on Mondays.
_HISTORY = """
INSERT INTO ledger (hour, gpu_uuid, node, sku, run_id, attempt, state, cause, confidence, shared, milliseconds,
    cost_micros, rules_version)
SELECT hour, 'GPU-old', 'old', 'H100-80GB', NULL, 0, 'unallocated', 'free', 'high', false, 3600000,
    2600000 + if(hour // $day % 7 = 4, 400000, 0), 'rules'
FROM range($start, $end, $step) hours(hour)
"""
_HOURS = """
INSERT INTO ledger_hours SELECT hour, 'closed', 'digest', 'rules', 'prices' FROM range($start, $end, $step) hours(hour)
"""


@contextmanager
def older_site(folder: Path) -> Iterator[httpx.Client]:
    """Yield a client of the site's server."""
    (folder / "budgets.toml").write_text(BUDGET, encoding="utf-8")
    fleet, chosen = small_site(), replace(settings(folder), budgets=folder / "budgets.toml")
    _goes_on(fleet)
    fleet.analyze(now=LATER, settings=chosen)
    _remember(fleet.store)
    with served(create_server(ServerConfig(collector(), chosen, analyze_seconds=None), fleet.store)) as client:
        yield client
    fleet.store.close()


def _goes_on(fleet: Fleet) -> None:
    """Two hosts in two racks send to each other for two hours more, so that the hours before are complete."""
    since, until = MONDAY + 2 * HOUR, MONDAY + 4 * HOUR
    for node, peer in (("x0", "x1"), ("x1", "x0")):
        fleet.hold("slurm/alpha/later", node, [f"{node}g0"], since, until)
        fleet.sample(node, f"{node}g0", since, until)
        flow = {"node": node, "run_id": "slurm/alpha/later", "peer": peer, "transport": "tcp", **SENT}
        fleet.add(
            "flow_samples", [flow | {"started_at": at, "ended_at": at + HOUR} for at in range(since, until, HOUR)]
        )


def _remember(store: Store) -> None:
    span: dict[str, object] = {"start": MONDAY - HISTORY_DAYS * DAY, "end": MONDAY, "step": HOUR}
    heard_at = time.time_ns() // 1000 - SILENT_SECONDS * 1_000_000
    with store.session() as session:
        session.execute(_HISTORY, span | {"day": DAY})
        session.execute(_HOURS, span)
        session.execute("INSERT INTO receipts VALUES (900000, 'n14', 'n14', 1, '', ?, ?, 1, 1)", [heard_at, heard_at])
