"""A figure does not change by growing old: readings are the same bytes before and after samples and tiers expire."""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from analyzer.ledger.coverage import Unjudged
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings
from bench.aging.told import untold
from collector.errors import StoreError
from collector.lake.retention import Keeping, drop
from collector.lake.tiers import roll_up
from collector.store.session import Session
from tests.analyzer.ledger.amounts_site import FIGURES, NOW, readings, site
from tests.analyzer.ledger.fleet import DAY, MONDAY, Fleet


def _age(fleet: Fleet, days: int) -> None:
    """Let the upkeep of so many days on do its work, and the analyzer make a pass after it."""
    roll_up(fleet.store, 1e9)
    drop(fleet.store, Keeping(), MONDAY + days * DAY, lambda _: None)
    fleet.analyze(now=NOW)


def test_no_reading_changes_when_samples_and_tiers_expire() -> None:
    """Finance signs what it reads: nothing of a closed period may depend on how long its samples are kept.

    Observations, which claim no time and no money, say which rules could no longer be judged; what was read of samples
    beside the books says that they are not kept.
    """
    fleet = site()
    before = readings(fleet.store)
    refused = {what for what, text in before.items() if text.startswith("refused")}
    wanting = {"history train": "several runs of a name", "quotas": "files of quotas"}
    assert refused == {f"{what} {form}" for what in wanting for form in ("text", "json")}, wanting
    for days in (15, 17, 95, 500):
        _age(fleet, days)
        after = readings(fleet.store, FIGURES) if days in (17, 95) else readings(fleet.store)
        assert untold(before, after) == [], days
        assert any("expired" in one.missing for one in _unjudged(fleet)), days
    with fleet.store.session() as session:
        for table in ("gpu_samples", "service_samples", "progress", "gpu_minutes", "gpu_hours", "network_hours"):
            assert session.row(f"SELECT count(*) FROM {table}") == (0,), table


def _unjudged(fleet: Fleet) -> list[Unjudged]:
    with fleet.store.session() as session:
        reader = Reader(session, Settings(), clock=lambda: NOW)
        return list(reader.unjudged(reader.period("2025-W46")))


class Trouble:
    """Lets statements of a store fail from the nth on, as a full disk or a kill does, until it is over."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        """Stand before every statement of every session."""
        self.left = 1 << 60
        execute = Session.execute

        def failing(session: Session, sql: str, parameters: Any = ()) -> None:
            self.left -= 1
            if self.left < 0 and not sql.startswith(("COMMIT", "ROLLBACK")):
                raise StoreError("the disk is full")
            execute(session, sql, parameters)

        patch.setattr(Session, "execute", failing)

    def of(self, work: Callable[[], object], after: int) -> None:
        """Do work whose statements fail after so many."""
        self.left = after
        with suppress(StoreError):
            work()
        self.left = 1 << 60


# Readings take longer than jobs: the suite has as many of these, and reads half as often.
@pytest.mark.parametrize(
    ("seed", "looks", "jobs_each"),
    [(0, 4, 8), *(pytest.param(seed, 8, 4, marks=pytest.mark.soak) for seed in range(6))],
)
def test_jobs_that_fail_in_the_middle_change_no_figure(
    seed: int, looks: int, jobs_each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Roll-up, retention and the pass are cut off anywhere, in any order, while the store ages; then all go well."""
    drawn, fleet, trouble = random.Random(seed), site(), Trouble(monkeypatch)
    before = readings(fleet.store, FIGURES)
    for days in sorted(drawn.sample(range(14, 500), looks)):
        now = MONDAY + days * DAY
        jobs: list[Callable[[], object]] = [
            lambda: roll_up(fleet.store, 1e9),
            lambda now=now: drop(fleet.store, Keeping(), now, lambda _: None),  # type: ignore[misc]
            lambda: fleet.analyze(now=NOW),
        ]
        for job in drawn.choices(jobs, k=jobs_each):
            trouble.of(job, drawn.choice([3, 10, 30, 100, 1_000]))
        assert readings(fleet.store, FIGURES) == before, days
    _age(fleet, 500)
    assert readings(fleet.store, FIGURES) == before
    with fleet.store.session() as session:
        assert session.row("SELECT count(*) FROM gpu_samples") == (0,)
        assert session.row("SELECT count(*) FROM gpu_hours") == (0,)
