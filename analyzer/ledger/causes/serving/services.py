"""Which runs are replicas of which service, and which rows of the services file are about them."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from analyzer.ledger.causes.serving.policy import Policy, PolicyBook
from analyzer.ledger.teams import RunIdentity
from analyzer.queries.labels import labels_of

if TYPE_CHECKING:
    from collector.store.session import Session

_FOR_GOOD = 2**62


@dataclass(frozen=True, slots=True)
class Service:
    """Runs that answer the same requests. `rows` are empty where nobody declared a policy."""

    name: str
    run_ids: tuple[str, ...]
    rows: tuple[Policy, ...]


ServiceKey = tuple[str, str, tuple[Policy, ...]]  # account, name, rows


def find_services(session: "Session", book: PolicyBook) -> list[Service]:
    """Return the services by name, and fill the temporary tables `service_runs` and `service_policies`.

    Runs of one name and account are replicas of one service, or those that one row calls so. Reads `run_summary` and
    `run_facts`, which analyzer.ledger.run_facts makes.
    """
    members: dict[ServiceKey, list[tuple[str, int]]] = defaultdict(list)
    for run_id, rid, name, account, owner, project, queue, labels, started_us in session.rows(
        """
        SELECT run_id, rid, name, account, owner, project, queue, labels, started_us
        FROM run_summary JOIN run_facts USING (rid) WHERE is_service ORDER BY run_id
        """
    ):
        identity = RunIdentity(run_id, started_us, account, owner, queue, project, name, labels_of(labels))
        rows = book.of(identity)
        called = next((row.service for row in rows if row.service is not None), None)
        key = ("", called, rows) if called else (account or "", name or run_id, rows)
        members[key].append((run_id, rid))
    _store(session, members)
    return [
        Service(name, tuple(run_id for run_id, _ in members[account, name, rows]), rows)
        for account, name, rows in sorted(members, key=lambda key: (key[1], key[0], members[key]))
    ]


def _store(session: "Session", members: dict[ServiceKey, list[tuple[str, int]]]) -> None:
    """Fill the tables by which SQL knows services: whose replicas to count, and what each promises, and when."""
    session.execute("CREATE OR REPLACE TEMP TABLE service_runs (rid BIGINT, sid BIGINT)")
    session.execute(
        "CREATE OR REPLACE TEMP TABLE service_policies (rid BIGINT, from_us BIGINT, until_us BIGINT, slo_micros BIGINT)"
    )
    runs_of = [(rid, sid) for sid, runs in enumerate(members.values(), 1) for _, rid in runs]
    session.load("service_runs", ("rid", "sid"), runs_of)
    promises = [
        (rid, starts_at, ends_at, slo)
        for key, runs in members.items()
        for starts_at, ends_at, slo in _promises(key[2])
        for _, rid in runs
    ]
    session.load("service_policies", ("rid", "from_us", "until_us", "slo_micros"), promises)


def _promises(rows: tuple[Policy, ...]) -> list[tuple[int, int, int]]:
    """Return the spans in which a row's promise holds; the first row in force counts, so that none overlap."""
    edges = sorted({at for row in rows for at in (row.starts_at, row.ends_at) if at is not None})
    found = []
    for starts_at, ends_at in pairwise([*edges, _FOR_GOOD]):
        row = next((row for row in rows if row.is_in_force(starts_at)), None)
        if row is not None and row.slo_micros is not None:
            found.append((starts_at, ends_at, row.slo_micros))
    return found
