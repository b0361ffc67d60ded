"""The ledger does not depend on when its input arrived, and what is closed stays as it was."""

from itertools import groupby
from typing import Any

import pytest

from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, SECOND, Fleet, Row
from tests.analyzer.ledger.generated import generate

T = MONDAY
RUN = "slurm/alpha/1"
IDLE: dict[str, Any] = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}


class Recorder(Fleet):
    """Keeps the rows instead of storing them, to hand them over in another order."""

    def __init__(self) -> None:
        """Start with nothing."""
        super().__init__()
        self.kept: list[tuple[str, Row]] = []

    def add(self, table: str, rows: object) -> None:
        """Keep the rows; those of samples are moved so that they lie about midnight."""
        for row in rows:  # type: ignore[attr-defined]
            moved = {
                name: value + DAY - 90 * MINUTE if name in ("started_at", "ended_at", "owned_from") and value else value
                for name, value in row.items()
            }
            self.kept.append((table, moved))


@pytest.mark.parametrize(
    ("seed", "hosts", "parts"),
    [(3, 10, 3), *(pytest.param(seed, 25, 6, marks=pytest.mark.soak) for seed in (3, 11, 19, 23))],
)
def test_a_ledger_made_as_samples_arrive_is_the_one_made_at_the_end(seed: int, hosts: int, parts: int) -> None:
    """Otherwise yesterday's last hour would depend on when the analyzer ran: quiet reaches over midnight."""
    recorder = Recorder()
    generate(recorder, seed, hosts)
    at_once, live = Fleet(), Fleet(threads=2)
    facts = groupby((kept for kept in recorder.kept if kept[0] != "gpu_samples"), key=lambda kept: kept[0])
    by_table = [(table, [row for _, row in kept]) for table, kept in facts]
    samples = [row for table, row in recorder.kept if table == "gpu_samples"]
    for fleet in (at_once, live):
        for table, rows in by_table:
            fleet.add_each(table, rows)
    samples.sort(key=lambda row: int(str(row["ended_at"])))
    at_once.add("gpu_samples", samples)
    at_once.analyze(now=T + 3 * DAY)
    size = -(-len(samples) // parts)
    for part in range(0, len(samples), size):
        live.add("gpu_samples", samples[part : part + size])
        live.analyze(now=T + 3 * DAY)
    assert live.rows() == at_once.rows()
    with at_once.store.session() as one, live.store.session() as other:
        query = "SELECT hour, status FROM ledger_hours ORDER BY 1"
        assert one.rows(query) == other.rows(query)


def test_quiet_that_began_before_midnight_is_seen_whole() -> None:
    """Ten minutes of quiet at the end of a day are idleness once the next day shows that they went on."""
    fleet = Fleet()
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T)
    fleet.sample("n1", "G1", T, T + DAY - 10 * MINUTE)
    fleet.sample("n1", "G1", T + DAY - 10 * MINUTE, T + DAY, **IDLE)
    fleet.analyze(now=T + DAY)
    fleet.sample("n1", "G1", T + DAY, T + DAY + 2 * HOUR, **IDLE)
    fleet.analyze(now=T + DAY + 2 * HOUR)
    assert fleet.states()["held_idle", "abandoned"] == 130 * MINUTE // 1000
    with fleet.store.session() as session:
        unsettled = session.rows("SELECT hour FROM ledger_hours WHERE status = 'provisional'")
    assert unsettled == [(T + DAY + HOUR,)]


def test_warm_up_is_starting_however_often_it_was_looked_at() -> None:
    """A first kernel is the start of the work only where no more work follows soon: the later look knows."""
    ledgers = []
    for looks in (1, 4):
        fleet = Fleet()
        fleet.own("n1", ["G1"])
        fleet.hold(RUN, "n1", ["G1"], T)
        for part in range(4):
            start = T + part * MINUTE
            values: dict[str, Any] = {"sm_active_ratio": 0.06, "utilization_ratio": 0.06} if part < 3 else {}
            fleet.sample("n1", "G1", start, start + MINUTE, **values)
            if looks > 1 or part == 3:
                fleet.analyze(now=start + MINUTE)
        ledgers.append(fleet.rows())
    assert ledgers[0] == ledgers[1]


def test_days_of_silence_are_booked() -> None:
    """Nothing arrived of two days, and they are owned all the same: not measured, not missing."""
    fleet = Fleet()
    fleet.own("n1", ["G1"])
    fleet.sample("n1", "G1", T, T + 2 * HOUR, **IDLE)
    fleet.analyze(now=T + 2 * HOUR)
    fleet.sample("n1", "G1", T + 3 * DAY, T + 3 * DAY + HOUR, **IDLE)
    fleet.analyze(now=T + 4 * DAY)
    assert sum(fleet.states().values()) == (3 * DAY + HOUR) // 1000
    assert fleet.states()["unobserved", "agent_down"] == (3 * DAY - 2 * HOUR) // 1000
    assert fleet.analyze(now=T + 4 * DAY).hours == 0


def test_a_week_closes_by_the_clock() -> None:
    """Nobody need send anything: what comes after 48 hours is an adjustment of rows that stay."""
    fleet = Fleet()
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T)
    fleet.sample("n1", "G1", T, T + 2 * HOUR)
    fleet.write("n1", T, T + 2 * HOUR)
    fleet.analyze(now=T + 3 * HOUR)
    before = fleet.rows()
    fleet.analyze(now=T + 10 * DAY)
    fleet.hold(RUN, "n1", ["G1"], T, T + 2 * HOUR, exit_status="failed")
    assert fleet.analyze(now=T + 10 * DAY + SECOND).adjustments == 4
    assert fleet.rows() == before
    with fleet.store.session() as session:
        assert session.rows("SELECT DISTINCT status FROM ledger_hours") == [("closed",)]
        assert session.row("SELECT sum(milliseconds) FROM adjustments") == (0,)
        (unjudged,) = session.row("SELECT count(*) FROM adjustments WHERE rules_version IS NULL")
    assert unjudged == 0
