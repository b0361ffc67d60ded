"""Rows that cannot be true cost nothing but themselves, are told, and are kept to be looked at; so many and no more."""

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire.contract import SCHEMA_VERSION
from agent.wire.envelope import open_envelope
from agent.wire.tables import TABLES
from collector.config import CollectorConfig
from collector.lake.sealing import seal
from collector.pipeline.batch_commit import BatchCommit, keep_asides
from collector.pipeline.decoding.batch import Batch, decode
from collector.store.database import Store, open_store
from collector.store.seal_mark import Mark
from tests.collector.batches import NOW, gpu_rows, host_rows
from tests.collector.hostile import message, sealed
from tests.collector.serving import Running, running

DAY = 86_400_000_000


def _bad(sequence: int = 1, *, bad: int = 1, good: int = 2) -> bytes:
    """Return a batch of good rows, then of bad ones, and of their host."""
    rows = [*gpu_rows(good), *gpu_rows(bad, power_watts=-5.0)]
    tables = {"gpu_samples": message("gpu_samples", rows), "host_samples": message("host_samples", host_rows())}
    parts = [["gpu_samples", good + bad, len(tables["gpu_samples"])], ["host_samples", 1, len(tables["host_samples"])]]
    return sealed(tables, sequence=sequence, tables=parts)


def test_one_impossible_row_costs_no_other(collector: Running) -> None:
    """A driver that reports minus five watts once must not cost a host its ten seconds of everything."""
    answer = collector.client.post(_bad())
    assert answer.status == 200
    assert answer.json["quarantined"] == 1
    assert answer.json["reasons"] == ["gpu_samples.power_watts in row 2 is -5.0: outside 0 to 1e+06 watts"]
    assert (collector.count("gpu_samples"), collector.count("host_samples"), collector.count("quarantine")) == (2, 1, 1)
    metrics = collector.client.get("/metrics").text
    assert 'gpuledger_collector_quarantined_rows_total{table="gpu_samples"} 1.0' in metrics
    assert 'gpuledger_collector_rows_total{table="gpu_samples"} 2.0' in metrics


def test_what_is_left_of_a_newer_agents_batch_says_that_it_is_of_our_version() -> None:
    """It has our columns: sealed after an upgrade under the agent's version, it would be taken for broken."""
    rows = [*gpu_rows(2), *gpu_rows(1, power_watts=-5.0)]
    newer = sealed({"gpu_samples": message("gpu_samples", rows)}, 3, schema_version=SCHEMA_VERSION + 1)
    batch = decode(newer, NOW)
    assert batch.quarantined
    header, _ = open_envelope(batch.body, 2**20)
    assert header.schema_version == SCHEMA_VERSION


def test_the_same_batch_again_puts_nothing_aside_twice(collector: Running) -> None:
    """It counts once, with all that came of it; and the sender is told the same."""
    first, second = (collector.client.post(_bad()) for _ in range(2))
    assert first.json["reasons"] == second.json["reasons"]
    assert (collector.count("quarantine"), collector.count("receipts")) == (1, 1)
    assert "quarantined_rows_total{" in collector.client.get("/metrics").text


def test_a_batch_of_nothing_but_impossible_rows_is_there_all_the_same(collector: Running) -> None:
    """Its sequence is used, so that the stream goes on; the agent could do nothing else with it either."""
    assert collector.client.post(_bad(good=0, bad=3)).json["quarantined"] == 3
    assert (collector.count("gpu_samples"), collector.count("receipts")) == (0, 1)


def test_what_is_put_aside_says_what_it_is_and_names_nobody(collector: Running) -> None:
    """It is evidence for whoever mends the agent; who held the GPU is none of that."""
    row = {"node": "n1", "run_id": "slurm/alpha/1", "started_at": NOW, "ended_at": NOW - 1, "user": "mallory"}
    named = [column.name for column in TABLES["allocations"].columns if column.sensitivity == "identity"]
    assert "user" in named
    collector.client.post(sealed({"allocations": message("allocations", [row])}, rows=1))
    with collector.store.session() as session:
        ((agent, table, column, reason, content),) = session.rows(
            "SELECT agent, table_name, column_name, reason, content FROM quarantine"
        )
    assert (agent, table, column) == ("n14", "allocations", "ended_at")
    assert reason == f"allocations.ended_at in row 0 is {NOW - 1}: before started_at"
    assert json.loads(content) == {"node": "n1", "run_id": "slurm/alpha/1", "started_at": NOW, "ended_at": NOW - 1}


def test_rows_from_a_clock_that_was_set_back_are_put_aside_alone(collector: Running) -> None:
    """What was read before the clock was set lies in the sender's future; what came after is true."""
    rows = [*gpu_rows(1), *gpu_rows(1, started_at=NOW + DAY, ended_at=NOW + DAY + 10)]
    answer = collector.client.post(sealed({"gpu_samples": message("gpu_samples", rows)}))
    assert answer.json["reasons"] == [f"gpu_samples.ended_at in row 1 is {NOW + DAY + 10}: in the sender's future"]
    assert collector.count("gpu_samples") == 1


def test_what_is_sealed_later_is_without_them(tmp_path: Path) -> None:
    """The body that is kept is sealed anew, so that whoever reads it need not know the rules of the day it came."""
    config = CollectorConfig(store=tmp_path / "store.duckdb")
    with open_store(config) as store:
        mark = Mark.of(store)
        batch = decode(_bad(), NOW)
        with BatchCommit(store, mark) as batch_commit:
            (receipt,) = batch_commit.land([batch.without_tables()])
            (again,) = batch_commit.land([decode(_bad(), NOW)])
        assert not getattr(receipt, "repeated", None)
        assert getattr(again, "repeated", None)
        seal(store, mark)
        with store.session() as session:
            assert session.row("SELECT count(*), min(power_watts) FROM gpu_samples") == (2, None)
            assert session.row("SELECT count(*) FROM host_samples") == (1,)
            assert session.row("SELECT row_count FROM receipts") == (3,)
            assert session.row("SELECT count(*) FROM quarantine") == (1,)


def test_the_oldest_go_first_and_are_counted() -> None:
    """A broken agent goes on for weeks; a full disk would stop everybody."""
    with Store.open(None) as store, store.session() as session:
        dropped = 0
        for number in range(300):
            dropped += keep_asides(session, [(number, decode(_bad(number, bad=10), NOW))], max_rows=100)
        (held, oldest) = session.row("SELECT count(*), min(batch) FROM quarantine")
        assert 100 <= held <= 1100
        assert held + dropped == 3000
        assert oldest > 0


def test_of_one_batch_few_are_kept_and_all_are_counted() -> None:
    """A million rows of nonsense in one batch are one fault, and no reason to write a million sentences."""
    batch = decode(_bad(bad=400), NOW)
    assert (batch.quarantined["gpu_samples"], len(batch.asides)) == (400, 10)
    with Store.open(None) as store, store.session() as session:
        assert keep_asides(session, [(1, batch)]) == 390


def test_a_refusing_quarantine_takes_nothing(config: CollectorConfig) -> None:
    """Receipt, rows and what was put aside are one transaction: the batch is sent again, and counts once."""
    with running(config) as serving:
        with serving.store.session() as session:
            session.execute("ALTER TABLE quarantine RENAME TO elsewhere")
        assert serving.client.post(_bad()).status == 503
        assert (serving.count("receipts"), serving.count("gpu_samples")) == (0, 0)


WATTS = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.floats(0, 1e6))


@settings(max_examples=50)
@given(st.lists(WATTS, min_size=1, max_size=40))
def test_every_row_is_either_stored_or_put_aside(watts: list[float | None]) -> None:
    """Nothing may get lost between the two."""
    rows = [gpu_rows(1, power_watts=value)[0] for value in watts]
    batch: Batch = decode(sealed({"gpu_samples": message("gpu_samples", rows)}, rows=len(rows)), NOW)
    fine = [value for value in watts if value is None or 0 <= value <= 1e6]
    assert batch.tables["gpu_samples"].column("power_watts").to_pylist() == fine
    assert sum(batch.quarantined.values()) == len(watts) - len(fine)
    assert batch.row_count == len(fine)
    assert decode(batch.body, NOW).tables["gpu_samples"].equals(batch.tables["gpu_samples"])
