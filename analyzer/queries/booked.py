"""Whose time the rows of the ledger are: of an hour that is closed for finance whose it was then, else whose it is now.

`runs` says what is known of a run now. A reading of money by team, cost centre, project, stage, queue or model takes
these from here, so that nothing that is edited later changes a final month.
"""

import re

COLUMNS = ("name", "team", "cost_centre", "project", "queue", "stage", "model")
_MOVED = ("team", "cost_centre", "project")  # what corrections move time between
_OF_CLOSED = re.compile(r"\{booked (\w+)\}")


def booked(table: str, places: "dict[str, str] | None" = None) -> str:
    """Return the relation of a table with `hour` and `run_id`, and beside its columns those of its runs, and `owner`.

    A row that nobody held has null in them. Of `adjustments` a row that moves time is whose it says. `places` are where
    tables are, where not by their names.
    """
    at = places or {}
    closed = [f"CASE WHEN c.run_id IS NULL THEN r.{column} ELSE c.{column} END" for column in COLUMNS]
    if table == "adjustments":
        closed = [
            f"CASE WHEN l.is_moved THEN l.moved_{column} ELSE {value} END" if column in _MOVED else value
            for column, value in zip(COLUMNS, closed, strict=True)
        ]
    told = ", ".join(f"{value} AS {column}" for column, value in zip(COLUMNS, closed, strict=True))
    return (
        f"(SELECT l.*, {told}, r.owner FROM {at.get(table, table)} l "
        f"LEFT JOIN {at.get('closed_runs', 'closed_runs')} c ON c.hour = l.hour AND c.run_id = l.run_id "
        f"LEFT JOIN {at.get('runs', 'runs')} r ON r.run_id = l.run_id)"
    )


def with_booked(text: str) -> str:
    """Return SQL with {booked ledger} and the like replaced by these relations."""
    return _OF_CLOSED.sub(lambda found: booked(found[1]), text)
