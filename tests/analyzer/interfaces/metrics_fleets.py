"""Ledgers for /metrics, of any size, written as the analysis writes them."""

from analyzer.states import BOOKINGS
from collector.store.database import Store
from tests.analyzer.ledger.fleet import HOUR, MONDAY

MS = 3_600_000


def large(store: Store, hosts: int, gpus: int, teams: int) -> None:
    """Fill a store with one hour of a fleet: a run for each host, in every state there is, of so many teams."""
    with store.session() as session:
        session.execute(
            """
            INSERT INTO runs (run_id, name, team, gpus, nodes, attempts, started_at)
            SELECT 'slurm/alpha/' || i, 'run-' || i, if(i % 50 = 0, NULL, 'team-' || i % $teams), $gpus, 1, 1, $hour
            FROM range($hosts) t(i)
            """,
            {"teams": teams, "gpus": gpus, "hour": MONDAY, "hosts": hosts},
        )
        _book(store, hosts, gpus)
        session.execute("INSERT INTO ledger_hours VALUES (?, 'open', 'digest', 'rules', 'prices')", [MONDAY])
        session.execute("INSERT INTO analysis VALUES (1, ?)", [MONDAY + HOUR])


def _book(store: Store, hosts: int, gpus: int) -> None:
    with store.session() as session:
        session.execute("CREATE TEMP TABLE words (n INTEGER, state VARCHAR, cause VARCHAR)")
        session.load("words", ("n", "state", "cause"), [(n, b.state, b.cause) for n, b in enumerate(BOOKINGS)])
        session.execute(
            """
            INSERT INTO ledger (hour, gpu_uuid, node, sku, run_id, attempt, state, cause, confidence, shared,
                milliseconds, cost_micros, rules_version)
            SELECT $hour, 'GPU-' || h || '-' || g, 'n' || h, 'H100-80GB',
                if(w.state = 'unallocated', NULL, 'slurm/alpha/' || h), 0, w.state, w.cause, 'high', false, $ms,
                2600000, 'rules'
            FROM range($hosts) hosts(h), range($gpus) gpus(g)
            JOIN words w ON w.n = (hosts.h * $gpus + g) % (SELECT count(*) FROM words)
            """,
            {"hour": MONDAY, "ms": MS, "hosts": hosts, "gpus": gpus},
        )
