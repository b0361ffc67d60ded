"""Read CSV, Parquet and Arrow files piece by piece, so that a file may be larger than memory, and tell of which table.

The table is that which the user says, else that of its name, else that of its columns.
"""

import codecs
import gzip
import io
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from agent.wire.contract import Table
from agent.wire.tables import TABLES
from collector.backup.manifest import sha256
from collector.errors import FileRefusedError

_PIECE_ROWS = 131_072
_PIECE_BYTES = 8 * 2**20
_MAX_SKIPPED = 100_000  # lines that are no rows at all; a file with more is none of ours

_ENDINGS = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
}


@dataclass(slots=True)
class Skipped:
    """Lines of a CSV file that have too few or too many values: (line, text), in order."""

    lines: list[tuple[int, str]] = field(default_factory=list)

    def line_of(self, row: int) -> int:
        """Return the line on which a row stands (rows from 0, lines from 1, the header is line 1)."""
        shifted = [number - index for index, (number, _) in enumerate(self.lines)]
        return row + 2 + bisect_right(shifted, row + 2)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a file, as they stand there. `first_row` counts from 0."""

    rows: pa.RecordBatch
    first_row: int


def _kind_of(path: Path) -> str:
    """Return csv, parquet or arrow, by the file's ending.

    Raises:
        FileRefusedError: it has another ending.
    """
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    kind = _ENDINGS.get(suffix.lower())
    if kind is None or (path.suffix == ".gz" and kind != "csv"):
        raise FileRefusedError(
            f"cannot import {path}: its name must end in .csv, .csv.gz, .parquet or .arrow, as its format is"
        )
    return kind


def file_hash(path: Path) -> str:
    """Return the sha256 of a file's bytes, in hex.

    Raises:
        FileRefusedError: it cannot be read.
    """
    try:
        return sha256(path)
    except OSError as error:
        raise FileRefusedError(f"cannot read {path}: {error.strerror}") from error


def column_names(path: Path) -> list[str]:
    """Return the names of a file's columns.

    Raises:
        FileRefusedError: the file cannot be read as what its name says.
    """
    with _opened(path, Skipped()) as reader:
        return list(reader.schema.names)


def pieces(path: Path, skipped: Skipped) -> Iterator[Piece]:
    """Yield a file's rows in order; lines of a CSV file that are no rows are noted in `skipped`.

    Raises:
        FileRefusedError: the file cannot be read as what its name says.
    """
    with _opened(path, skipped) as reader:
        row = 0
        for rows in reader:
            rows.validate(full=True)
            yield Piece(rows, row)
            row += rows.num_rows


@contextmanager
def _opened(path: Path, skipped: Skipped) -> Iterator[Any]:
    """Open a file as something with a schema that yields record batches."""
    kind = _kind_of(path)
    try:
        with path.open("rb") as file:
            yield {"csv": _csv, "parquet": _Parquet, "arrow": _arrow}[kind](file, path, skipped)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, pa.ArrowException) as error:
        why = (isinstance(error, OSError) and error.strerror) or str(error).splitlines()[0][:200]
        raise FileRefusedError(f"cannot read {path} as {kind}: {why}") from error
    except MemoryError as error:
        raise FileRefusedError(f"cannot read {path} as {kind}: it declares a part larger than memory") from error


def _csv(file: Any, path: Path, skipped: Skipped) -> Any:  # noqa: ANN401 - pyarrow's readers share no type
    """Read every value as text, since one bad value must cost its row and not the file."""

    def skip(row: Any) -> Literal["skip", "error"]:  # noqa: ANN401
        skipped.lines.append((row.number, row.text))
        return "skip" if len(skipped.lines) < _MAX_SKIPPED else "error"

    source: Any = gzip.open(file) if path.suffix == ".gz" else file  # noqa: SIM115 - closed with the file below it
    checked: Any = _Utf8(source)
    text: Any = pa.PythonFile(checked, "r")
    names = _header(path)
    return pyarrow.csv.open_csv(
        text,
        read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=_PIECE_BYTES),
        parse_options=pyarrow.csv.ParseOptions(invalid_row_handler=skip, ignore_empty_lines=False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in names}, strings_can_be_null=True
        ),
    )


class _Utf8:
    """A file that is read as long as it is UTF-8.

    What is not would be refused anyway, but for a line of too many fields: of that, pyarrow makes a text for `skip`
    where nobody can catch what goes wrong.
    """

    def __init__(self, file: Any) -> None:  # noqa: ANN401 - any file of bytes
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return bool(self._file.closed)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes.

        Raises:
            UnicodeDecodeError: they are no UTF-8.
        """
        found: bytes = self._file.read(size)
        self._decoder.decode(found, final=not found)
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _header(path: Path) -> list[str]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        line = io.BytesIO(file.readline(_PIECE_BYTES))
    return list(pyarrow.csv.read_csv(line, read_options=pyarrow.csv.ReadOptions(use_threads=False)).column_names)


class _Parquet:
    """A Parquet file as a reader of record batches."""

    def __init__(self, file: Any, path: Path, skipped: Skipped) -> None:  # noqa: ANN401, ARG002 - as its siblings
        self._file = pyarrow.parquet.ParquetFile(file)
        self.schema = self._file.schema_arrow

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._file.iter_batches(batch_size=_PIECE_ROWS, use_threads=False)


class _ArrowFile:
    """An Arrow file, whose reader has an index and no order of its own, as a reader of record batches."""

    def __init__(self, reader: Any) -> None:  # noqa: ANN401
        self._reader = reader
        self.schema = reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for index in range(self._reader.num_record_batches):
            yield self._reader.get_batch(index)


def _arrow(file: Any, path: Path, skipped: Skipped) -> Any:  # noqa: ANN401, ARG001
    magic = file.read(6)
    file.seek(0)
    if magic == b"ARROW1":
        return _ArrowFile(pyarrow.ipc.open_file(file))
    return pyarrow.ipc.open_stream(file)


def table_of(path: Path, columns: Sequence[str], named: str | None) -> Table:
    """Return the table of the contract that a file holds rows of.

    Raises:
        FileRefusedError: the table that is named does not exist, or nothing tells which it is.
    """
    if named is not None:
        if named not in TABLES:
            raise FileRefusedError(f"there is no table {named}; there are {', '.join(TABLES)}")
        return TABLES[named]
    in_name = [name for name in TABLES if name in path.name.replace("-", "_")]
    return TABLES[max(in_name, key=len)] if in_name else _by_columns(path, set(columns))


def require_keys(table: Table, path: Path, columns: Sequence[str], node: str | None) -> None:
    """Check that the columns without which a row says nothing are there.

    Raises:
        FileRefusedError: some are missing, or one is there twice.
    """
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise FileRefusedError(f"{path} has two columns {twice[0]}; which one is meant is ambiguous")
    given = {*columns, "node"} if node else set(columns)
    missing = [column.name for column in table.columns if column.required and column.name not in given]
    if missing:
        way_out = "; --node sets one for the whole file" if "node" in missing else ""
        raise FileRefusedError(f"{path} lacks {', '.join(missing)}, which every row of {table.name} needs{way_out}")


def _by_columns(path: Path, columns: set[str]) -> Table:
    """Return the table that shares the most columns with the file, where that is one and it shares more than keys."""
    shared = {name: len(columns & set(table.names)) for name, table in TABLES.items()}
    best = max(shared.values())
    found = [name for name, count in shared.items() if count == best]
    keys = {column.name for column in TABLES[found[0]].columns if column.required}
    if len(found) > 1 or not columns & set(TABLES[found[0]].names) - keys:
        raise FileRefusedError(
            f"cannot tell which table {path} belongs to; use --table with one of {', '.join(TABLES)}"
        )
    return TABLES[found[0]]
