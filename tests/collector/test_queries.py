"""What the store is asked outside the ledger: who reports, how much is there, and what is covered."""

from collections.abc import Iterator
from typing import Any

import pytest

from collector import queries
from collector.decode import decode
from collector.landing import Landing
from collector.store.database import Session, Store
from tests.collector.batches import NOW, STREAM, body, gpu_rows

MINUTE = 60_000_000


@pytest.fixture
def session() -> Iterator[Session]:
    """A session on an empty store."""
    with Store.open(None) as store, store.session() as opened:
        yield opened


def _land(session: Session, sequence: int, **tables: list[dict[str, Any]]) -> None:
    Landing(session).land([decode(body(sequence, tables), NOW + sequence)])


def _gpu(start: int, end: int, **changes: Any) -> dict[str, Any]:
    """Return one sample of GPU-0 from and until some minutes."""
    return gpu_rows(1, started_at=NOW + (start - 60) * MINUTE, ended_at=NOW + (end - 60) * MINUTE, **changes)[0]


def test_an_empty_store_has_seen_nobody(session: Session) -> None:
    """The first page of a new site must come up."""
    assert queries.last_batch(session) == 0
    assert queries.agents(session) == []
    assert queries.runs(session, 0, NOW) == []
    assert queries.coverage(session, 0, NOW) == []
    assert {span.rows for span in queries.table_spans(session)} == {0}


def test_agents_are_listed_with_what_they_sent_last(session: Session) -> None:
    """A silent host is found by when it was last heard."""
    _land(session, 1, gpu_samples=gpu_rows(2))
    _land(session, 5, gpu_samples=gpu_rows(3))
    assert queries.agents(session) == [queries.AgentSeen("n14", STREAM, 5, NOW, NOW + 5, 2, 5)]
    assert queries.last_batch(session) == 2


def test_coverage_counts_overlaps_once_and_silence_not_at_all(session: Session) -> None:
    """History that is imported beside an agent's own overlaps it; a minute measured twice is one minute."""
    rows = [_gpu(0, 2), _gpu(1, 3), _gpu(1, 2), _gpu(5, 6), _gpu(6, 7, up=False), _gpu(8, 12)]
    _land(session, 1, gpu_samples=rows)
    (found,) = queries.coverage(session, NOW - 60 * MINUTE, NOW - 50 * MINUTE)
    assert found.measured_microseconds == (3 + 1 + 2) * MINUTE
    assert (found.gpu_uuid, found.node) == ("GPU-0", "n14")
    assert (found.first, found.last) == (NOW - 60 * MINUTE, NOW - 50 * MINUTE)


def test_spans_say_what_is_there(session: Session) -> None:
    """Doctor and pages show them; an empty table has no times."""
    _land(session, 1, gpu_samples=[_gpu(0, 2), _gpu(5, 6)])
    spans = {span.table: span for span in queries.table_spans(session)}
    assert spans["gpu_samples"] == queries.TableSpan("gpu_samples", 2, NOW - 60 * MINUTE, NOW - 54 * MINUTE)
    assert spans["ownership"] == queries.TableSpan("ownership", 0, None, None)


def test_a_run_is_what_its_newest_allocations_say(session: Session) -> None:
    """A scheduler tells an allocation again when it ends; both tellings are one allocation."""
    taken = {"node": "n1", "run_id": "slurm/alpha/7", "attempt": 0, "started_at": NOW - MINUTE, "account": "nlp"}
    held = [taken | {"gpu_uuid": f"GPU-{index}"} for index in range(2)]
    waiting = {"node": "", "run_id": "slurm/alpha/8", "submitted_at": NOW - MINUTE, "requested_gpus": 8}
    _land(session, 1, allocations=[*held, waiting])
    first, second = queries.runs(session, NOW - 2 * MINUTE, NOW)
    assert (first.run_id, first.gpus, first.started_at, first.ended_at) == ("slurm/alpha/7", 2, NOW - MINUTE, None)
    assert (second.run_id, second.started_at) == ("slurm/alpha/8", None)
    _land(session, 2, allocations=[row | {"ended_at": NOW - 1, "exit_status": "completed"} for row in held])
    first, _ = queries.runs(session, NOW - 2 * MINUTE, NOW)
    assert (first.gpus, first.ended_at, first.exit_status) == (2, NOW - 1, "completed")
    assert [run.run_id for run in queries.runs(session, NOW, NOW + MINUTE)] == ["slurm/alpha/8"]
