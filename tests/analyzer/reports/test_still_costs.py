"""What goes on costing: of idle GPUs that are still held, in the newest hour that is wholly booked."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from agent.wire.units import HOUR_US
from analyzer.findings.finding import Finding
from analyzer.findings.ledger_findings import StillCosts, still_costs
from analyzer.interfaces.text.finding_text import still_words
from collector.store.database import Store
from collector.store.session import Session
from tests.analyzer.reports import example_week

LAST = example_week.W46.end - HOUR_US
IDLE = next(one for one in example_week.findings() if one.state == "held_idle")


HOURS = ("hour", "status", "input_digest", "rules_version")
ROWS = (
    "hour",
    "gpu_uuid",
    "node",
    "run_id",
    "state",
    "cause",
    "shared",
    "milliseconds",
    "cost_micros",
    "rules_version",
)


def book(session: Session, run_id: str, milliseconds: int, micros: int | None, hour: int = LAST) -> None:
    """Book idle time of a run's GPU in an hour."""
    row = [
        hour,
        f"GPU-{run_id}-{milliseconds}",
        "n1",
        run_id,
        "held_idle",
        "abandoned",
        False,
        milliseconds,
        micros,
        "3",
    ]
    session.load("ledger", ROWS, [row])


@pytest.fixture
def ledger() -> Iterator[Session]:
    """Yield a ledger whose newest whole hour is LAST; the one after it is not over."""
    with Store.open(None) as store, store.session() as session:
        told = [[LAST - HOUR_US, "open", "", "3"], [LAST, "open", "", "3"], [LAST + HOUR_US, "provisional", "", "3"]]
        session.load("ledger_hours", HOURS, told)
        yield session


def finding(finding_id: str, *run_ids: str) -> Finding:
    """Return an open finding of idle GPUs."""
    return replace(IDLE, id=finding_id, run_ids=run_ids, still_open=True)


def test_the_finding_that_loses_most_now_is_named_with_its_hour(ledger: Session) -> None:
    """Eight GPUs at $2.60 are $20.80 an hour, however much another one has lost before."""
    for gpu in range(8):
        book(ledger, "slurm/alpha/9", 3_600_000 - gpu, 2_600_000)
    book(ledger, "slurm/alpha/8", 3_600_000, 1_100_000)
    book(ledger, "slurm/alpha/8", 3_600_000, 90_000_000, LAST - HOUR_US)
    book(ledger, "slurm/alpha/8", 600_000, 90_000_000, LAST + HOUR_US)
    found = still_costs(ledger, [finding("f-eight", "slurm/alpha/8"), finding("f-nine", "slurm/alpha/9")])
    assert found == StillCosts("f-nine", 8 * 3_600_000 - 28, 20_800_000)
    assert still_words(found, "USD") == "f-nine still costs $20.80 per hour: gpuledger findings explain f-nine"


def test_what_was_let_go_costs_nothing_any_more(ledger: Session) -> None:
    """A finding of the week whose GPUs were released on Friday must not be said to cost on Sunday."""
    book(ledger, "slurm/alpha/9", 3_600_000, 2_600_000, LAST - HOUR_US)
    assert still_costs(ledger, [finding("f-nine", "slurm/alpha/9")]) is None
    book(ledger, "slurm/alpha/9", 3_600_000, 2_600_000)
    closed = replace(finding("f-nine", "slurm/alpha/9"), still_open=False)
    assert still_costs(ledger, [closed]) is None


def test_without_a_price_it_is_told_in_gpu_hours(ledger: Session) -> None:
    """A part of a price would be a wrong price."""
    book(ledger, "slurm/alpha/9", 3_600_000, 2_600_000)
    book(ledger, "slurm/alpha/9", 1_800_000, None)
    found = still_costs(ledger, [finding("f-nine", "slurm/alpha/9")])
    assert found == StillCosts("f-nine", 5_400_000, None)
    assert still_words(found, "USD") == "f-nine still takes 1.5 GPU-hours per hour: gpuledger findings explain f-nine"
