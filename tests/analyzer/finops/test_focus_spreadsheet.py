"""The ledger's rows for a spreadsheet."""

import csv
from decimal import Decimal
from pathlib import Path

from analyzer.finops.focus.export import COLUMNS, export_csv
from tests.analyzer.finops.focus_books import DAY, MS_PER_HOUR, NOVEMBER, Books
from tests.analyzer.finops.test_focus_export import MONTH, WORK


def test_a_spreadsheet_sums_to_the_ledger(tmp_path: Path) -> None:
    """Time and money of all rows are the ledger's; what has no price is empty, not 0."""
    books = Books()
    books.run("slurm/a/1", team="-team", model="@llama")
    books.gpu_hour([*WORK, (None, "unallocated", "free", 600_000)])
    books.gpu_hour([(None, "unallocated", "free", MS_PER_HOUR)], NOVEMBER + DAY, price=None, gpu="GPU-2")
    file = tmp_path / "rows.csv"
    with books.session() as session:
        count = export_csv(session, MONTH, "USD", file)
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == count == 4
    assert sum(int(row["gpu_milliseconds"]) for row in rows) == 2 * MS_PER_HOUR
    assert sum(Decimal(row["cost"] or 0) for row in rows) * 1_000_000 == books.total()
    assert [row["cost"] for row in rows if row["day"] == "2026-11-02"] == [""]
    assert (rows[0]["team"], rows[0]["model"]) == ("'-team", "'@llama")
    assert list(rows[0]) == [column.name for column in COLUMNS]
