"""A table is its columns, declared once: paper and CSV say the same."""

from collections.abc import Sequence

from analyzer.text.table import GPU_TIME, CellUnit, TableColumn, csv_table, csv_text, money_of, paper_lines

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
