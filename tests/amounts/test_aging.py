"""A figure does not change by growing old: readings are the same bytes before and after samples and tiers expire."""

from analyzer.config import Settings
from analyzer.reading import Reader
from analyzer.unjudged import Unjudged
from collector.upkeep.retention import Keeping, drop
from collector.upkeep.rolling import roll_up
from tests.amounts.site import NOW, readings, site
from tests.ledger.fleet import DAY, MONDAY, Fleet


def _age(fleet: Fleet, days: int) -> None:
    """Let the upkeep of so many days on do its work, and the analyzer make a pass after it."""
    roll_up(fleet.store, 1e9)
    drop(fleet.store, Keeping(), MONDAY + days * DAY, lambda _: None)
    fleet.analyze(now=NOW)


def test_no_reading_changes_when_samples_and_tiers_expire() -> None:
    """Finance signs what it reads: nothing of a closed period may depend on how long its samples are kept.

    Observations, which claim no time and no money, say which rules could no longer be judged.
    """
    fleet = site()
    before = readings(fleet.store)
    assert not [what for what, text in before.items() if text.startswith("refused")]
    for days in (15, 17, 95, 500):
        _age(fleet, days)
        after = readings(fleet.store)
        changed = {what: text for what, text in after.items() if text != before[what]}
        assert changed.keys() <= {"findings text", "findings json"}, days
        assert any("expired" in one.missing for one in _unjudged(fleet)), days
    with fleet.store.session() as session:
        for table in ("gpu_samples", "service_samples", "progress", "gpu_minutes", "gpu_hours", "network_hours"):
            assert session.row(f"SELECT count(*) FROM {table}") == (0,), table


def _unjudged(fleet: Fleet) -> list[Unjudged]:
    with fleet.store.session() as session:
        reader = Reader(session, Settings(), clock=lambda: NOW)
        return list(reader.unjudged(reader.period("2025-W46")))
