"""The way out of docs/parquet.md: the same rows, by DuckDB with and without DuckLake, and by pyarrow."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pyarrow.parquet
import pytest

from collector.store.lake import DUCKDB_VERSION
from tests.operations.site import Site

duckdb = pytest.importorskip("duckdb")
DOCUMENT = Path(__file__).parents[2] / "docs" / "parquet.md"
SUMS = (718, 718 * (2**30) + 359)  # rows, and bytes of memory in use, of 359 batches of two GPUs


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lake of some hundred batches that a server has open meanwhile; more rows than stay in the catalogue."""
    path = tmp_path_factory.mktemp("site") / "store.duckdb"
    with Site(path) as site:
        site.take(range(1, 360))
        site.seal()
        yield path.with_name("store.duckdb.lake")


def files(lake: Path) -> list[str]:
    """Return the files of gpu_samples by the query of the document, without writing to the catalogue."""
    (query,) = re.findall(r"```sql\n(SELECT s\.path .*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    with closing(sqlite3.connect(f"file:{lake / 'catalogue.sqlite'}?mode=ro", uri=True)) as catalogue:
        return [str(lake / "data" / row[0]) for row in catalogue.execute(query)]


def extension(name: str) -> str:
    """Return an extension's file, which on a site comes from DuckDB's own repository."""
    found = find_spec(f"duckdb_extension_{name}")
    assert found is not None
    assert found.origin is not None
    return f"{Path(found.origin).parent}/extensions/v{DUCKDB_VERSION}/{name}.duckdb_extension"


def test_pyarrow_reads_the_files_that_the_catalogue_names(lake: Path) -> None:
    """By the list, never by the folder."""
    samples = pyarrow.dataset.dataset(files(lake), format="parquet").to_table(columns=["memory_used_bytes"])
    assert (samples.num_rows, sum(int(value or 0) for value in samples["memory_used_bytes"].to_pylist())) == SUMS


def test_duckdb_reads_them_without_ducklake(lake: Path) -> None:
    """No extension, no catalogue but for the list."""
    with duckdb.connect() as plain:
        found = plain.execute(
            "SELECT count(*), sum(memory_used_bytes)::BIGINT FROM read_parquet(?)", [files(lake)]
        ).fetchall()
    assert found == [SUMS]


def test_duckdb_with_ducklake_reads_everything(lake: Path) -> None:
    """With the catalogue: consistent while the server writes, the ledger too."""
    with duckdb.connect() as reader:
        for name in ("sqlite_scanner", "ducklake"):
            reader.execute(f"LOAD '{extension(name)}'")
        reader.execute(
            f"ATTACH 'ducklake:sqlite:{lake}/catalogue.sqlite' AS lake "
            f"(DATA_PATH '{lake}/data', OVERRIDE_DATA_PATH true, READ_ONLY)"
        )
        found = reader.execute("SELECT count(*), sum(memory_used_bytes)::BIGINT FROM lake.gpu_samples").fetchall()
        assert found == [SUMS]
        assert reader.execute("SELECT count(*) FROM lake.books.ledger").fetchall() == [(0,)]


def test_the_files_are_what_the_document_says(lake: Path) -> None:
    """Version 2, zstd, plain types: what other engines read without a thought."""
    kinds = {"int64", "double", "string", "bool", "large_string"}
    for path in files(lake):
        read: Any = pyarrow.parquet.ParquetFile(path)
        assert {str(field.type) for field in read.schema_arrow} <= kinds
        column = read.metadata.row_group(0).column(0)
        assert column.compression == "ZSTD"
        read.close()
