"""What is known of runs beside the ledger, as the API lists it."""

from typing import Any

from pydantic import Field

from analyzer.reports.document import Iso, Listing, Micros, Model, Span, iso_or_none
from collector.store.session import Session

_COLUMNS = (
    "run_id, name, team, cost_centre, project, model, queue, stage, stage_confidence, stage_reason, exit_status, "
    "submitted_at, started_at, ended_at, gpus, nodes, racks, sku, attempts"
)


class Run(Model):
    """One run: who, what, when, how large. `team` null is unmapped; times that have not come are null."""

    run_id: str
    subject: str = Field(description="What people call it: its name, else the last part of its id.")
    name: str | None
    team: str | None
    cost_centre: str | None
    project: str | None
    model: str | None = Field(description="By a rule, else its label, else its server; null: no model is named.")
    queue: str | None
    stage: str | None = Field(description="By its names first; where they say nothing, by what it did.")
    stage_confidence: str | None = Field(description="high: a label or its own service; medium: a name; else low.")
    stage_reason: str | None = Field(description="By what: words that follow the stage.")
    exit_status: str | None
    submitted_at: Micros | None
    submitted_at_iso: Iso | None
    started_at: Micros | None
    started_at_iso: Iso | None
    ended_at: Micros | None
    ended_at_iso: Iso | None
    running: bool
    gpus: int
    nodes: int
    racks: int | None
    sku: str | None
    attempts: int


class RunPage(Listing):
    """Runs, the one that began last first. `period` is null where none was asked for."""

    period: Span | None
    items: list[Run]


def runs_where(
    session: Session, conditions: list[str], values: dict[str, object], limit: int, after: tuple[Any, ...] | None
) -> list[Run]:
    """Return the runs that meet all conditions, those after the key (minus start, id) `after`, at most `limit`."""
    if after is not None:
        conditions = [*conditions, "row(-started_at, run_id) > row($a0, $a1)"]
        values = values | {"a0": after[0], "a1": after[1]}
    where = " AND ".join(conditions) or "true"
    rows = session.rows(
        f"SELECT {_COLUMNS} FROM runs WHERE {where} ORDER BY -started_at NULLS LAST, run_id LIMIT {limit}", values
    )
    return [_run(row) for row in rows]


def run_of(session: Session, run_id: str) -> Run:
    """Return one run; it must be known."""
    return runs_where(session, ["run_id = $run"], {"run": run_id}, 1, None)[0]


def _run(row: tuple[Any, ...]) -> Run:
    known = dict(zip(_COLUMNS.split(", "), row, strict=True))
    for name in ("submitted_at", "started_at", "ended_at"):
        known[f"{name}_iso"] = iso_or_none(known[name])
    subject = known["name"] or str(known["run_id"]).rsplit("/", 1)[-1]
    return Run(subject=subject, running=known["started_at"] is not None and known["ended_at"] is None, **known)
