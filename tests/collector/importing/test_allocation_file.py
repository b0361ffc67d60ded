"""Allocations of any scheduler from a file: the contract's columns, or what the scheduler knows instead of a UUID."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from collector.errors import FileRefusedError
from collector.importing.allocation_file import history, read_rows
from collector.importing.history import Brought, bring
from tests.analyzer.ledger.fleet import DAY, HOUR
from tests.collector.importing.site import Site, T

COLUMNS = ("run_id", "node", "gpu_uuid", "started_at", "ended_at", "exit_status")


def brought(site: Site, path: Path, since: int = T, until: int = T + DAY) -> Brought:
    """Import a file."""
    with site.store.session() as session:
        found = history(session, read_rows(path), "alpha", since, until)
    return bring(site.store, found)


def written(tmp_path: Path, text: str, name: str = "jobs.csv") -> Path:
    """Return a file with this text."""
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_row_a_gpu_needs_nothing_else(site: Site, tmp_path: Path) -> None:
    """Who knows the GPU is believed."""
    text = f"run_id,node,gpu_uuid,started_at,ended_at,exit_status\npbs/x/1,n1,n1-2,{T},{T + HOUR},failed\n"
    brought(site, written(tmp_path, text))
    assert site.allocations(*COLUMNS) == [("pbs/x/1", "n1", "n1-2", T, T + HOUR, "failed")]


def test_a_row_a_host_says_how_many_or_which(site: Site, tmp_path: Path) -> None:
    """Schedulers count GPUs, number them, or only know what the run asked for."""
    rows = [
        {"run_id": "1", "node": "n1", "gpus": 4, "started_at": T, "ended_at": T + HOUR},
        {"run_id": "2", "node": "n2", "gpu_index": "1,3", "started_at": T, "ended_at": T + HOUR},
        {"run_id": "3", "node": "n[1-2]", "requested_gpus": 8, "started_at": T + HOUR, "ended_at": T + 2 * HOUR},
    ]
    brought(site, written(tmp_path, json.dumps(rows), "jobs.json"))
    held = {
        run: sorted(gpu for own, gpu in site.allocations("run_id", "gpu_uuid") if own == run) for run in _runs(site)
    }
    assert held["file/alpha/1"] == ["n1-0", "n1-1", "n1-2", "n1-3"]
    assert held["file/alpha/2"] == ["n2-1", "n2-3"]
    assert len(held["file/alpha/3"]) == 8


def _runs(site: Site) -> set[str]:
    return {run for (run,) in site.allocations("run_id")}


def test_others_names_of_columns_and_words_are_understood(site: Site, tmp_path: Path) -> None:
    """An export of LSF or PBS is a rename away from the contract."""
    text = "job_id,host,gpus,start_time,end_time,state\n9,n1,4,2025-11-10T01:00:00Z,2025-11-10T02:00:00+00:00,TIMEOUT\n"
    brought(site, written(tmp_path, text))
    assert set(site.allocations("run_id", "started_at", "ended_at", "exit_status")) == {
        ("file/alpha/9", T + HOUR, T + 2 * HOUR, "timeout")
    }


def test_a_line_an_object_and_parquet_say_the_same(site: Site, tmp_path: Path) -> None:
    """The same rows in another form are the same allocations: the second import adds nothing."""
    rows = [{"run_id": "k/x/1", "node": "n1", "gpus": 4, "started_at": T, "ended_at": T + HOUR}]
    assert brought(site, written(tmp_path, "\n".join(map(json.dumps, rows)), "jobs.jsonl")).new["allocations"] == 4
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "jobs.parquet")
    assert brought(site, tmp_path / "jobs.parquet").new["allocations"] == 0


def test_history_ends_at_its_end(site: Site, tmp_path: Path) -> None:
    """As with Slurm: what ended later was still held."""
    head, late = "run_id,node,gpus,started_at,ended_at,exit_status", T + 9 * HOUR
    text = f"{head}\n1,n1,4,{T},{late},failed\n2,n2,4,{late},,\n"
    brought(site, written(tmp_path, text), until=T + 5 * HOUR)
    assert set(site.allocations("run_id", "ended_at", "exit_status")) == {("file/alpha/1", None, None)}


def test_bad_rows_are_left_out_and_told(site: Site, tmp_path: Path) -> None:
    """One broken line of a month must not cost the month."""
    text = f"run_id,node,gpus,started_at,ended_at\n1,n1,4,{T},{T + HOUR}\n2,n2,4,tomorrow,\n,n2,4,{T},\n"
    found = brought(site, written(tmp_path, text))
    assert _runs(site) == {"file/alpha/1"}
    assert found.history.notes[0].startswith("jobs.csv: 2 rows left out: ")


def test_a_row_that_is_cut_or_says_no_place_is_counted(site: Site, tmp_path: Path) -> None:
    """A row that is gone without a word looks like a free GPU."""
    text = (
        "job_id,host,start,end,gpus,gpu_index,state\n"
        f"1,n1,{T},{T + HOUR},2,,\n2,,{T},{T + HOUR},2,,\n3,n[1,{T},{T + HOUR},2,,\n4,n1,{T},{T + HOUR},2 x H100,,\n"
        f"5,n1,{T},{T + HOUR},-1,,\n6,n1,{T},{T + HOUR},,first,\n7,n1,{T},,1,,FAILED\n8,n1,{T},{T + HOUR},0,,\n9,n1,{T}"
    )
    rows = read_rows(written(tmp_path, text))
    assert rows.unread == 7
    assert {*rows.reasons} == {
        "too few or too many values",
        "node: it names no host",
        "'n[1' is not a valid host list",
        "gpus: '2 x H100' is not a number of GPUs",
        "gpus: '-1' is not a number of GPUs",
        "gpu_index: 'first' is not a list of numbers such as 0-3,6",
        "ended_at: it is FAILED and does not say since when",
    }
    brought(site, tmp_path / "jobs.csv")
    assert _runs(site) == {"file/alpha/1"}


@pytest.mark.parametrize("uuids", ["n1-1,n1-2", "n1-1; n1-2", ["n1-1", "n1-2"]])
def test_a_row_may_name_several_gpus_and_hosts(site: Site, tmp_path: Path, uuids: str | list[str]) -> None:
    """Two UUIDs in one cell are two GPUs, and a list of JSON is what it lists."""
    rows = [
        {"run_id": "1", "node": "n1", "gpu_uuid": uuids, "started_at": T, "ended_at": T + HOUR},
        {"run_id": "2", "node": ["n1", "n2"], "gpu_index": [0, 3], "started_at": T, "ended_at": T + HOUR},
    ]
    brought(site, written(tmp_path, json.dumps(rows), "jobs.json"))
    assert site.allocations("gpu_uuid") == [("n1-1",), ("n1-2",), ("n1-0",), ("n1-3",), ("n2-0",), ("n2-3",)]


def test_columns_of_others_are_quoted_with_the_names_that_are_understood(tmp_path: Path) -> None:
    """Whoever exports a scheduler's own columns learns which to rename."""
    with pytest.raises(FileRefusedError, match=r"run_id or job_id or run, .*; their columns are jobid, exec_host"):
        read_rows(written(tmp_path, '[{"JOBID": "7", "EXEC_HOST": "n1"}]', "jobs.json"))


def test_what_names_no_gpu_that_is_known_is_told(site: Site, tmp_path: Path) -> None:
    """A GPU of another host, a part of a GPU and a number that the host does not have are nobody's free GPUs."""
    head = "run_id,node,gpu_uuid,gpus,gpu_index,started_at,ended_at"
    rows = ["1,n1,n2-0,,", "2,n1,elsewhere,,", "3,n1,,0.5,", "4,n1,,,9", "5,n1,,,"]
    text = "\n".join([head, *(f"{row},{T},{T + HOUR}" for row in rows)])
    assert brought(site, written(tmp_path, text)).unplaced == {
        "with GPUs that no metric shows": 2,
        "with parts of GPUs (MIG, shards, MPS), not assigned to a GPU": 1,
        "of which nothing says which or how many GPUs they have": 2,
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("jobs.csv", "node,gpus\nn1,4\n"),
        ("jobs.json", '{"a": 1'),
        ("jobs.json", "[1, 2]"),
        ("jobs.json", "[]"),
        ("jobs.txt", "run_id\n1\n"),
    ],
)
def test_what_is_no_list_of_allocations_is_refused(site: Site, tmp_path: Path, name: str, text: str) -> None:
    """In a sentence, before anything is written."""
    with pytest.raises(FileRefusedError):
        brought(site, written(tmp_path, text, name))
