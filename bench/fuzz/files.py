"""Hostile files to import: CSV, Parquet and Arrow, changed in their bytes, their shape or what they say."""

import csv
import gzip
import io
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from agent.wire.tables import TABLES
from bench.fuzz.rows import Row, true_rows
from bench.fuzz.rubbish import TEXTS, bytes_of, value
from collector.pipeline.decoding.arrow_messages import arrow_schema

KINDS = (".csv", ".csv", ".csv.gz", ".parquet", ".parquet", ".arrow", ".arrow")
STRANGE: tuple[Any, ...] = (
    pa.list_(pa.int64()),
    pa.struct([pa.field("a", pa.int64())]),
    pa.map_(pa.string(), pa.int64()),
    pa.decimal128(38, 10),
    pa.date32(),
    pa.time64("us"),
    pa.timestamp("ns"),
    pa.timestamp("s", "America/New_York"),
    pa.duration("s"),
    pa.binary(),
    pa.large_string(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.uint64(),
    pa.int8(),
    pa.float16(),
    pa.null(),
    pa.bool_(),
)


class Files:
    """Makes one hostile file after another below a folder."""

    def __init__(self, folder: Path, now: int, dice: random.Random) -> None:
        self._folder, self._now, self._dice = folder, now, dice
        self._number = 0

    def next(self) -> tuple[str, Path]:
        """Return the layer that was changed, and the file; it is the caller's to remove."""
        dice = self._dice
        self._number += 1
        table, ending = dice.choice(list(TABLES)), dice.choice(KINDS)
        layer = dice.choices(("bytes", "shape", "values", "name"), (4, 3, 4, 1))[0]
        rows = true_rows(table, dice.choice((1, 3, 20)), self._now, dice)
        if layer == "values":
            for _ in range(dice.choice((1, 2, 6))):
                column = dice.choice(TABLES[table].columns)
                dice.choice(rows)[column.name] = value(column.type, dice)
        content = self._csv(rows, layer) if ending.startswith(".csv") else self._arrow(table, rows, layer, ending)
        if ending.endswith(".gz"):
            content = gzip.compress(content, 1)
        if layer == "bytes":
            content = bytes_of(content, dice)
        name = f"{table}-{self._number}" if layer != "name" else dice.choice(("x", "gpu_samples-host_samples", "-"))
        other = dice.choice(KINDS) if layer == "name" else ending
        path = self._folder / f"{name}-{self._number}{other}"
        path.write_bytes(content)
        return f"{ending} {layer}", path

    def _csv(self, rows: list[Row], layer: str) -> bytes:
        dice = self._dice
        out = io.StringIO()
        names = list(rows[0])
        if layer == "shape":
            names = self._other_names(names)
        writer = csv.writer(out, delimiter=dice.choice((",", ",", ",", ";", "\t")) if layer == "shape" else ",")
        writer.writerow(names)
        for row in rows:
            line = [_written(row.get(name)) for name in names]
            if layer == "shape" and dice.random() < 0.2:
                line = line[: dice.randrange(len(line) + 1)] * dice.choice((1, 2))
            writer.writerow(line)
        text = out.getvalue()
        if layer == "shape" and dice.random() < 0.3:
            text = dice.choice(("\ufeff" + text, text.replace("\r\n", "\r"), text + '"', "", "\n\n" + text, text * 2))
        return text.encode("utf-8", "surrogatepass")

    def _arrow(self, table: str, rows: list[Row], layer: str, ending: str) -> bytes:
        schema = pa.schema([field.with_nullable(True) for field in arrow_schema(TABLES[table])])
        made = pa.Table.from_pylist(rows, schema=schema)
        if layer == "shape":
            made = self._reshaped(made)
        out = pa.BufferOutputStream()
        if ending == ".parquet":
            pyarrow.parquet.write_table(made, out, compression=self._dice.choice(("snappy", "zstd", "none", "gzip")))
        else:
            opened = self._dice.choice((pyarrow.ipc.new_file, pyarrow.ipc.new_stream))
            with opened(out, made.schema) as writer:
                writer.write_table(made)
        return out.getvalue().to_pybytes()

    def _reshaped(self, made: pa.Table) -> pa.Table:
        """Drop, double, rename and retype columns."""
        dice = self._dice
        for _ in range(dice.choice((1, 1, 2, 4))):
            if not made.num_columns:
                break
            at = dice.randrange(made.num_columns)
            kind = dice.randrange(5)
            if kind == 0:
                made = made.remove_column(at)
            elif kind == 1:
                made = made.append_column(made.column_names[at], made.column(at))
            elif kind == 2:
                made = made.rename_columns(self._other_names(made.column_names))
            else:
                made = made.set_column(at, made.column_names[at], _nothing_or_much(dice, made.num_rows))
        return made

    def _other_names(self, names: list[str]) -> list[str]:
        dice = self._dice
        changed = list(names)
        changed[dice.randrange(len(changed))] = dice.choice((*TEXTS[:5], "node", "extra", names[0].upper()))
        return changed


def _nothing_or_much(dice: random.Random, rows: int) -> Any:  # noqa: ANN401 - an array of any type
    kind = dice.choice(STRANGE)
    try:
        return pa.array([0] * rows).cast(kind)
    except (pa.ArrowException, TypeError):
        return pa.nulls(rows, kind)


def _written(what: object) -> object:
    return "" if what is None else what
