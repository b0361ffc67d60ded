"""A table is its columns, declared once: paper and CSV say the same."""

import csv
import io
from collections.abc import Sequence

from analyzer.text.layout import TextLayout
from analyzer.text.table import (
    GPU_TIME,
    RATIO,
    CellUnit,
    TableColumn,
    adding_up,
    bar_column,
    csv_table,
    csv_text,
    for_spreadsheet,
    money_of,
    name_column,
    paper_lines,
    spark_column,
    with_readable,
)

Line = tuple[str, int | None, int | None]
COLUMNS = (
    TableColumn[Line]("TEAM", lambda line: line[0], width=12, align="<", name="team"),
    TableColumn[Line]("GPU-hours", lambda line: line[1], GPU_TIME, 11, name="gpu_hours"),
    TableColumn[Line]("cost", lambda line: line[2], money_of("USD"), 9, name="cost"),
)
LINES: list[Line] = [("nlp", 3_600_000, 2_600_001), ("vision", None, None)]


def test_paper_has_words_and_csv_has_exact_figures() -> None:
    """A person reads $2.60, a program the millionth; what nobody knows is a dash to one and nothing to the other."""
    assert paper_lines(COLUMNS, LINES) == [
        "TEAM          GPU-hours     cost",
        "  nlp               1.0    $2.60",
        "  vision              -        -",
    ]
    assert csv_table(COLUMNS, LINES) == "team,gpu_hours,cost\nnlp,1,2.600001\nvision,,\n"
    assert csv_table(COLUMNS, [("-", -3_600_000, -500)]).endswith("\n'-,-1,-0.0005\n"), (
        "less than nothing is no formula"
    )


def test_cells_that_must_add_up_are_written_together() -> None:
    """Rounded one by one, a column of thirds would not sum to its total."""

    def shares(values: Sequence[int]) -> list[str]:
        return [str(value + (place == 0)) for place, value in enumerate(values)]

    column = TableColumn[int]("share", lambda value: value, width=7, together=shares)
    assert paper_lines((column,), [33, 33, 33], indent="") == ["  share", "     34", "     33", "     33"]


def test_a_cell_that_is_too_wide_pushes_the_rest() -> None:
    """Nothing is cut that a column does not cut itself."""
    name = TableColumn[str]("NAME", str, CellUnit(lambda text: text * 3), 8, "<")
    assert paper_lines((name, TableColumn[str]("n", len, width=3)), ["abcd"]) == ["NAME      n", "  abcdabcdabcd  4"]


def test_no_cell_is_a_formula() -> None:
    """A name comes from its user, and a spreadsheet would compute it."""
    assert csv_text(["a", "b"], [["=1+1", -1], ["  @x", None]]) == "a,b\n'=1+1,-1\n'  @x,\n"


def test_a_bar_a_sparkline_and_a_share_are_columns() -> None:
    """What is not known is no bar, a blank of a sparkline, and a dash without a sign."""
    row = tuple[str, float | None, tuple[float | None, ...]]
    rows: list[row] = [("a", 0.5, (0.0, None, 1.0)), ("  b", 0.25, ()), ("c", None, (None,))]
    columns: tuple[TableColumn[row], ...] = (
        name_column("CLASS", lambda line: line[0], 8),
        bar_column(lambda line: line[1], 4, TextLayout()),
        spark_column("LAST H", lambda line: line[2], 6, TextLayout(), gap=1),
        TableColumn[row]("useful", lambda line: line[1], RATIO, 8),
    )
    assert paper_lines(columns, rows) == [
        "CLASS        LAST H  useful",
        "  a     ████ ▁ █        50%",
        "    b   ██              25%",
        "  c                       -",
    ]


def test_a_total_is_the_sum_of_what_is_printed() -> None:
    """Three thirds are a whole; where one is not known, no total is told and nothing is rounded to fit."""
    column = adding_up(10, 1, "$")
    assert column([33, 33, 33, None]) == ["$0.4", "$0.3", "$0.3", "$1.0"]
    assert column([35, None, None]) == ["$0.4", "-", "-"]


def test_the_last_column_is_a_paragraph_where_a_table_wraps() -> None:
    """It goes on below itself, no table without heads has a line of them, and an empty one leaves its row."""
    columns = (
        TableColumn[tuple[str, str]]("", lambda line: line[0], width=6, align="<", is_cut=True),
        TableColumn[tuple[str, str]]("", lambda line: line[1], gap=2),
    )
    told = "word " * 14
    assert paper_lines(columns, [("one", told), ("overlong", "")], wrap=TextLayout(width=64)) == [
        "  one   word word word word word word word word word word word",
        "        word word word",
        "  ov…   ",
    ]


def test_every_text_of_a_sheet_is_one_that_no_spreadsheet_computes() -> None:
    """Heads too: a team may be called anything, and is a column somewhere."""
    starts = ("=", "+", "-", "@", "＝", "＋", "－", "＠", " =", "\u00a0=", "\u202f@")
    cells = [f"{start}1+1" for start in starts]
    rows = list(csv.reader(io.StringIO(csv_text(cells, [cells]))))
    assert all(cell.startswith("'") for row in rows for cell in row)
    assert not {"\u00a0", "\u202f"} & set(csv_text(cells, [cells]))


def test_a_sheet_has_what_people_compute_with_beside_what_is_exact() -> None:
    """Finance does not divide by a million first; what is not known stays empty."""
    head = ("run_id", "started_us", "milliseconds", "useful_ms", "cost_micros", "micros_per_gpu_hour")
    rows = [("r", 0, 3_600_000, 1_800_000, 2_600_001, None), ("s", None, None, None, None, 1)]
    names, wide = with_readable(head, rows, "EUR", "Europe/Berlin")
    assert names[6:] == ["started", "gpu_hours", "useful_gpu_hours", "cost_eur", "eur_per_gpu_hour"]
    text = csv_text(names, wide)
    assert "r,0,3600000,1800000,2600001,,1970-01-01T01:00:00+01:00,1,0.5,2.600001,\n" in text
    assert "s,,,,,1,,,,,0.000001\n" in text


def test_what_excel_would_read_in_letters_of_its_own_bears_a_mark() -> None:
    """And a program that reads plain ASCII meets none."""
    assert for_spreadsheet("a,b\n") == "a,b\n"
    assert for_spreadsheet("Müller\n").encode().startswith(b"\xef\xbb\xbf")
