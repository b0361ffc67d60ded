"""Any telemetry can be brought: what is true lands, what is not is named, and a file counts once."""

import csv
import gzip
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from collector.cli.imports import import_
from collector.errors import FileRefusedError, StoreError
from collector.importing.importer import Imported, import_file
from collector.store.database import Store
from tests.collector.batches import NOW, gpu_rows

HEADER = "node,started_at,ended_at,gpu_uuid,utilization_ratio"
GOOD = f"n1,{NOW - 10},{NOW},GPU-0,0.5"


def _csv(tmp_path: Path, *lines: str, name: str = "gpu_samples.csv") -> Path:
    path = tmp_path / name
    text = "\n".join(lines) + "\n"
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def _imported(path: Path, **options: Any) -> tuple[Imported, list[tuple[Any, ...]]]:
    """Import into a store of its own; return the result and the rows that landed."""
    with Store.open(None) as store, store.session() as session:
        result = import_file(store, path, **options)
        return result, session.rows(f"SELECT * EXCLUDE (batch) FROM {result.table} ORDER BY ALL")


@pytest.mark.parametrize("name", ["gpu_samples.csv", "gpu_samples.csv.gz", "2026-w46-gpu-samples.csv"])
def test_a_csv_lands_with_nulls_where_it_says_nothing(tmp_path: Path, name: str) -> None:
    """What a source does not know is unknown, not 0."""
    result, rows = _imported(_csv(tmp_path, HEADER, GOOD, f"n1,{NOW - 10},{NOW},GPU-1,", name=name))
    assert (result.table, result.read, result.landed, result.rejected) == ("gpu_samples", 2, 2, 0)
    assert (result.first, result.last) == (NOW - 10, NOW)
    assert rows[0][:7] == ("n1", NOW - 10, NOW, "GPU-0", None, None, 0.5)
    assert set(rows[1][4:]) == {None}


@pytest.mark.parametrize("kind", ["parquet", "arrow file", "arrow stream"])
def test_parquet_and_arrow_land_like_csv(tmp_path: Path, kind: str) -> None:
    """The table is the same whoever wrote it; times may be timestamps, whole numbers may be floats, NaN is missing."""
    table = pa.table(
        {
            "node": pa.array(["n1", "n1"]).dictionary_encode(),
            "started_at": pa.array([datetime(2025, 11, 13, 2, tzinfo=UTC)] * 2, pa.timestamp("ns", "UTC")),
            "ended_at": pa.array([datetime(2025, 11, 13, 3)] * 2, pa.timestamp("ms")),
            "gpu_uuid": ["GPU-0", "GPU-1"],
            "utilization_ratio": [0.5, float("nan")],
            "memory_used_bytes": pa.array([2.0, None]),
        }
    )
    path = tmp_path / f"gpu_samples.{kind.split()[0]}"
    if kind == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        make = pyarrow.ipc.new_file if kind == "arrow file" else pyarrow.ipc.new_stream
        with make(str(path), table.schema) as writer:
            writer.write_table(table)
    result, rows = _imported(path)
    assert (result.landed, result.rejected) == (2, 0)
    start = int(datetime(2025, 11, 13, 2, tzinfo=UTC).timestamp()) * 10**6
    assert [row[1:4] + row[6:7] + row[10:11] for row in rows] == [
        (start, start + 3_600_000_000, "GPU-0", 0.5, 2),
        (start, start + 3_600_000_000, "GPU-1", None, None),
    ]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (str(NOW), NOW),
        ("2025-11-13T02:13:20Z", NOW),
        ("2025-11-13T03:13:20+01:00", NOW),
        ("2025-11-13T03:13:20.000000999+0100", NOW),
        ("2025-11-13 02:13:20", NOW),
        ("2025-11-13T02:13:20.5Z", NOW + 500_000),
        (" 2025-11-13T02:13:20Z ", NOW),
        ("yesterday", None),
        ("2025-02-31T00:00:00Z", None),
        ("1763000000", None),
        ("1763000000.0", None),
    ],
)
def test_times_are_microseconds_or_iso_8601(tmp_path: Path, written: str, read: int | None) -> None:
    """Two clear forms; seconds would be 1970 and are refused, and what has no zone is UTC."""
    result, rows = _imported(_csv(tmp_path, HEADER, GOOD, f"n1,{NOW - 20},{written},GPU-1,0.5"))
    assert [row[2] for row in rows if row[3] == "GPU-1"] == ([] if read is None else [read])
    assert result.rejected == (read is None)


def test_bad_rows_are_named_and_good_ones_land(tmp_path: Path) -> None:
    """One broken line of a million must neither stop the others nor pass unseen."""
    path = _csv(
        tmp_path,
        HEADER,
        GOOD,
        f"n1,{NOW - 10},{NOW},GPU-1,1.7",
        "n1,too,few",
        "",
        f"n1,{NOW - 10},{NOW},GPU-2,lots",
        f",{NOW - 10},{NOW},GPU-3,0.1",
        f"n1,{NOW},{NOW},GPU-4,0.1",
        f"n1,{NOW - 10},{NOW},GPU-5,0.1,and,more",
        f"n1,{NOW - 10},{NOW},GPU-6,0.25",
    )
    result, rows = _imported(path)
    assert [(bad.line, bad.reason) for bad in result.rejects] == [
        (3, "gpu_samples.utilization_ratio: outside 0 to 1"),
        (4, "has more or fewer values than the header has names"),
        (6, "gpu_samples.utilization_ratio is not a number"),
        (7, "gpu_samples.node: every row needs it"),
        (8, "gpu_samples.started_at: the interval has no length"),
        (9, "has more or fewer values than the header has names"),
    ]
    assert result.rejects[0].raw == f"n1,{NOW - 10},{NOW},GPU-1,1.7"
    assert (result.read, result.landed, result.rejected) == (8, 2, 6)
    assert [row[3] for row in rows] == ["GPU-0", "GPU-6"]


def test_the_same_file_counts_once_whatever_it_is_called(tmp_path: Path) -> None:
    """Who is unsure whether an import went through runs it again."""
    path = _csv(tmp_path, HEADER, GOOD)
    other = _csv(tmp_path, HEADER, GOOD, name="gpu_samples_again.csv")
    with Store.open(None) as store, store.session() as session:
        assert not import_file(store, path).repeated
        assert import_file(store, path).repeated
        assert import_file(store, other).repeated
        assert session.row("SELECT count(*) FROM gpu_samples") == (1,)
        assert session.row("SELECT agent, row_count FROM receipts") == ("import:gpu_samples.csv", 1)


def test_a_file_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    """Half a file with a receipt could never be completed."""
    path = tmp_path / "gpu_samples.csv.gz"
    rows = [f"n1,{NOW - 10},{NOW},GPU-{index},0.{index}" for index in range(20_000)]
    path.write_bytes(gzip.compress("\n".join([HEADER, *rows]).encode())[:-2000])
    with Store.open(None) as store, store.session() as session:
        with pytest.raises(FileRefusedError, match=r"cannot read .*gpu_samples\.csv\.gz as csv"):
            import_file(store, path)
        assert session.row("SELECT count(*) FROM gpu_samples") == (0,)
        assert session.row("SELECT count(*) FROM receipts") == (0,)


def test_the_table_is_told_by_flag_then_by_name_then_by_columns(tmp_path: Path) -> None:
    """Most files say what they are; only where two tables would do is the user asked."""
    allocations = _csv(tmp_path, "node,run_id,requested_gpus,user", "n1,slurm/a/1,8,ada", name="jobs.csv")
    assert _imported(allocations)[0].table == "allocations"
    assert _imported(_csv(tmp_path, HEADER, GOOD, name="export.csv"))[0].table == "gpu_samples"
    assert _imported(_csv(tmp_path, HEADER, GOOD, name="x.csv"), table="inventory")[0].ignored_columns == (
        "utilization_ratio",
    )
    with pytest.raises(FileRefusedError, match=r"cannot tell which table .*keys\.csv belongs to; use --table"):
        _imported(_csv(tmp_path, "node,started_at,ended_at", f"n1,{NOW - 1},{NOW}", name="keys.csv"))
    with pytest.raises(FileRefusedError, match="there is no table gpus; there are gpu_samples"):
        _imported(allocations, table="gpus")


def test_missing_keys_are_named_at_once(tmp_path: Path) -> None:
    """Without them no row says anything; one sentence for the file, not a million for its rows."""
    path = _csv(tmp_path, "started_at,utilization_ratio", f"{NOW},0.5")
    with pytest.raises(FileRefusedError, match="lacks node, ended_at, gpu_uuid, which every row of gpu_samples needs"):
        _imported(path)


def test_a_node_may_be_given_for_the_whole_file(tmp_path: Path) -> None:
    """A file from one host rarely names it."""
    path = _csv(tmp_path, HEADER.removeprefix("node,"), GOOD.removeprefix("n1,"))
    assert _imported(path, node="n7")[1][0][0] == "n7"


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("gpu_samples.txt", b"", r"its name must end in \.csv, \.csv\.gz, \.parquet or \.arrow"),
        ("gpu_samples.parquet", b"PAR1 and nothing else", "as parquet"),
        ("gpu_samples.arrow", b"not arrow at all", "as arrow"),
        ("gpu_samples.csv", b"", "as csv"),
        ("gpu_samples.csv.gz", b"not gzip", "as csv"),
        ("gpu_samples.csv", b"node,node,started_at\nn1,n2,3\n", "has two columns node"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused_in_one_sentence(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    """A broken download should say so, and say which file."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileRefusedError, match=sentence) as refused:
        _imported(path)
    assert "\n" not in str(refused.value)
    assert name in str(refused.value)


def test_an_arrow_file_that_claims_more_than_memory_is_refused(tmp_path: Path) -> None:
    """Found by a million mutants: the reader of Arrow allocates what a message says that it holds."""
    rows = pa.RecordBatch.from_pylist([{"node": "n1", "gpu_uuid": "GPU-0", "started_at": NOW - 10, "ended_at": NOW}])
    sink = pa.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    content = sink.getvalue().to_pybytes()
    reader = pyarrow.ipc.MessageReader.open_stream(content)
    reader.read_next_message()
    body = reader.read_next_message().body
    assert body is not None
    length = struct.pack("<q", body.size)
    assert content.count(length) >= 1
    path = tmp_path / "gpu_samples.arrow"
    path.write_bytes(content.replace(length, struct.pack("<q", 2**62)))
    with pytest.raises(FileRefusedError, match=r"cannot read .*gpu_samples\.arrow as arrow"):
        _imported(path)


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    """The commonest mistake of all."""
    with pytest.raises(FileRefusedError, match=r"cannot read .*none\.csv as csv: No such file or directory"):
        _imported(tmp_path / "none.csv")


def test_the_command_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Read, landed, rejected, by table and in time: enough to believe it, or not."""
    path = _csv(tmp_path, HEADER + ",colour", GOOD + ",red", f"n1,{NOW - 10},{NOW},GPU-1,1.7,blue")
    rejects = tmp_path / "rejects.csv"
    assert import_([str(path), "--store", str(tmp_path / "s.duckdb"), "--reject", str(rejects)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{path} -> gpu_samples: 2 rows read, 1 imported, 1 rejected, 2025-11-13 02:13:19 to 2025-11-13 02:13:20 UTC",
        "  line 3: gpu_samples.utilization_ratio: outside 0 to 1",
        "  to import them too, correct them in a file of their own: the others are already counted",
        "  unknown columns were ignored: colour",
    ]
    with rejects.open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["line", "reason", "raw", "file"],
            [
                "3",
                "gpu_samples.utilization_ratio: outside 0 to 1",
                f"n1,{NOW - 10},{NOW},GPU-1,1.7,blue",
                "gpu_samples.csv",
            ],
        ]


def test_a_dry_run_writes_nothing_and_fails_on_bad_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To look before the leap, and to check an export in CI."""
    good = _csv(tmp_path, HEADER, GOOD)
    bad = _csv(tmp_path, HEADER, GOOD, "x,y,z,0,0", name="bad_gpu_samples.csv")
    store = tmp_path / "s.duckdb"
    assert import_([str(good), "--dry-run", "--store", str(store)]) == 0
    assert import_([str(good), str(bad), "--dry-run", "--store", str(store)]) == 1
    assert not store.exists()
    assert "1 valid, 1 rejected" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("column", "values", "unit"),
    [
        ("utilization_ratio", ("0", "0", "85", "90"), "percent"),
        ("power_watts", ("61000", "400000", "", "70000.5"), "mW"),
        ("memory_used_bytes", ("512", "20480", "20480", "20480"), "MiB"),
        ("sm_clock_hertz", ("1980", "1980", "210", "345"), "MHz"),
    ],
)
def test_a_column_in_another_unit_refuses_the_file_and_names_it(
    tmp_path: Path, column: str, values: tuple[str, ...], unit: str
) -> None:
    """Judged row by row, the idle rows of a log in percent land and the busy ones do not: it says "never used"."""
    rows = [f"n1,{NOW - 10 * at - 10},{NOW - 10 * at},GPU-0,{value}" for at, value in enumerate(values)]
    path = _csv(tmp_path, HEADER.replace("utilization_ratio", column), *rows)
    with pytest.raises(FileRefusedError, match=f"gpu_samples.{column} .* looks like {unit}; .* Nothing of the file"):
        import_([str(path), "--store", str(tmp_path / "s.duckdb")])
    assert list(tmp_path.iterdir()) == [path], "an empty store would answer the next question with an empty fleet"


def test_rows_that_are_there_already_count_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half a log, then the whole of it, shuffled, and with a row twice: it is the whole log."""
    rows = [f"n1,{NOW - 10 * at - 10},{NOW - 10 * at},GPU-{at % 2},0.{at}" for at in range(9)]
    half, whole = _csv(tmp_path, HEADER, *rows[:5]), tmp_path / "gpu_samples_all.csv"
    whole.write_text("\n".join([HEADER, *rows[::-1], rows[2]]))
    store = tmp_path / "s.duckdb"
    assert import_([str(half), "--store", str(store)]) == 0
    assert import_([str(whole), "--store", str(store)]) == 0
    assert "10 rows read, 4 imported, 0 rejected, 6 were there already" in capsys.readouterr().out
    with Store.open(store, read_only=True) as opened, opened.session() as session:
        assert session.row("SELECT count(*), count(DISTINCT started_at) FROM gpu_samples") == (9, 9)


def test_what_landed_before_a_refused_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each file is a transaction of its own; the sentence about the bad one must not hide the good ones."""
    good = _csv(tmp_path, HEADER, GOOD)
    keyless = _csv(tmp_path, "node,colour", "n1,red", name="other_gpu_samples.csv")
    with pytest.raises(FileRefusedError):
        import_([str(good), str(keyless), "--store", str(tmp_path / "s.duckdb")])
    assert "1 imported" in capsys.readouterr().out
    assert (tmp_path / "s.duckdb").exists()


def test_an_import_that_fails_leaves_no_empty_store_behind(tmp_path: Path) -> None:
    """What is wrong with a file may be found only while it is read; a store that was there before stays."""
    keyless = _csv(tmp_path, "node,colour", "n1,red")
    store = tmp_path / "s.duckdb"
    with pytest.raises(FileRefusedError):
        import_([str(keyless), "--store", str(store)])
    assert list(tmp_path.iterdir()) == [keyless]
    Store.open(store).close()
    with pytest.raises(FileRefusedError):
        import_([str(keyless), "--store", str(store)])
    assert store.exists()


def test_a_terminal_is_told_that_an_import_is_working(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A year of samples takes minutes; a log or a pipe gets nothing of it."""
    path = _csv(tmp_path, HEADER, GOOD)
    assert import_([str(path), "--store", str(tmp_path / "a.duckdb")]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert import_([str(path), "--store", str(tmp_path / "b.duckdb")]) == 0
    assert "gpu_samples.csv: 1 row read" in capsys.readouterr().err


def test_a_mistyped_file_leaves_no_store_behind(tmp_path: Path) -> None:
    """An empty store would answer the next question with an empty fleet."""
    with pytest.raises(FileRefusedError):
        import_([str(tmp_path / "none.csv"), "--store", str(tmp_path / "s.duckdb")])
    assert not (tmp_path / "s.duckdb").exists()


def test_rows_as_an_agent_sends_them_may_be_imported(tmp_path: Path) -> None:
    """The same rows by another road are the same rows."""
    path = tmp_path / "gpu_samples.parquet"
    rows = gpu_rows(3)
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
    landed = _imported(path)[1]
    assert [(row[3], row[5], row[6], row[10]) for row in landed] == [
        (row["gpu_uuid"], row["up"], row["utilization_ratio"], row["memory_used_bytes"]) for row in rows
    ]


def test_a_store_that_cannot_be_opened_refuses_the_import(tmp_path: Path) -> None:
    """A mistyped --store must not be written over."""
    path = _csv(tmp_path, HEADER, GOOD)
    (tmp_path / "not-a-store.duckdb").write_text("hello " * 1000)
    with pytest.raises(StoreError):
        import_([str(path), "--store", str(tmp_path / "not-a-store.duckdb")])


def test_a_line_of_too_many_fields_that_is_no_text_refuses_the_file(tmp_path: Path) -> None:
    """As any other bytes that are no UTF-8 do; pyarrow would swallow the error, and print it to nobody."""
    path = tmp_path / "gpu_samples.csv"
    path.write_bytes(f"{HEADER}\n{GOOD}\n".encode() + b"n1,1,2,GPU-\xff,0.5,one,two\n")
    with pytest.raises(FileRefusedError, match=r"cannot read .* as csv: 'utf-8' codec can't decode byte 0xff"):
        _imported(path)
