"""A few hundred cases of the fuzzer at each door: what bench/bench_fuzz.py does by the million."""

import gzip
from pathlib import Path

import pytest

from bench.fuzz.checks import rubbish
from bench.fuzz.doors import DOORS, Door
from bench.fuzz.knocking import knocked
from bench.fuzz.slice import KINDS, Outcome
from collector.errors import FileRefusedError
from collector.importing.files import column_names
from collector.lake.sealing import seal
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.seal_mark import Mark

CASES = {"ingest": 600, "remote_write": 300, "files": 150}
NOW = 1_795_219_200_000_000  # microseconds UTC


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_cases_end_in_a_sentence_and_nothing_untrue_is_stored(kind: str, tmp_path: Path) -> None:
    """Whoever can reach a door can try it all day: no crash, no exception of others, and no rubbish in the books."""
    path = tmp_path / "store.duckdb"
    with Store.open(path, lake=None if kind == "files" else default_lake(path)) as store:
        mark = Mark.of(store)
        outcome: Outcome = KINDS[kind](store, mark, 7, CASES[kind], tmp_path)
        if store.lake is not None:
            assert seal(store, mark).broken == 0
        with store.session() as session:
            assert rubbish(session, NOW + 10 * 365 * 86_400_000_000) == []
            assert session.row("SELECT count(*) FROM receipts")[0] > 0, "nothing got in; the test shows nothing"
    assert outcome.faults == []
    assert outcome.cases == CASES[kind]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_hostile_texts_end_in_a_sentence_within_a_gigabyte(door: Door, tmp_path: Path) -> None:
    """A price file of 200 kB, a key with 100,000 dots, took 23 GB: whoever may send one could end the server."""
    found = knocked(door, 11, tmp_path, texts=20)
    assert found.faults == []
    assert sum(found.ends.values()) == 20


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("gpu_samples.csv", b"node,started_at,\xff\xfe,gpu_uuid\n"),
        ("gpu_samples.csv.gz", gzip.compress(b"", mtime=0)[:10] + b"\x07" * 60),
    ],
)
def test_a_file_that_is_damaged_within_is_refused_in_a_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    """The fuzzer found both: text that is no UTF-8, and a deflate stream with a hole, ended in a traceback."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileRefusedError, match=r"cannot read .* as csv: "):
        column_names(path)
