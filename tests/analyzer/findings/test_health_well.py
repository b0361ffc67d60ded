"""A fleet that is well is not mentioned, and what is said of one that is not does not depend on chance."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from analyzer.findings.health import gpus, hosts, queues, runs, services
from analyzer.findings.health.all_notices import RULES, notices_in
from analyzer.findings.health.gpus import XIDS
from analyzer.findings.health.notice import LIMITS, NoticeRule
from analyzer.findings.words import rows
from collector.lake.tiers import roll_up
from collector.store.schemas import make_tier_tables
from tests.analyzer.findings.health_fleets import UNTIL, WELL, noticed, well
from tests.analyzer.ledger.copies import made_once
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet

SICK: dict[str, dict[str, Any]] = {
    "n1-a": {"pcie_replay_events": 20, "memory_used_bytes": 79_000_000_000},
    "n2-b": {"ecc_uncorrected_events": 1, "pcie_width": 8},
    "n3 agent": {"clock_offset_seconds": 4.0},
    "n4 inventory": {"driver_version": "535.1.2"},
}


@made_once
def sick() -> Fleet:
    """Return such a fleet, analysed."""
    fleet = well(SICK)
    fleet.analyze(UNTIL)
    return fleet


def test_a_healthy_busy_fleet_yields_no_notice() -> None:
    """A list that always has something in it is read by nobody."""
    assert noticed(well()) == []


def test_an_empty_store_yields_nothing() -> None:
    """Nor does a ledger without hours accuse anybody."""
    with Fleet().store.session() as session:
        assert notices_in(session, MONDAY, UNTIL).notices == ()


def test_the_same_fleet_says_the_same() -> None:
    """Order and words follow from what is stored: the week's mail and the page must not differ."""
    first, second = noticed(sick()), noticed(well(SICK))
    assert first == second
    assert {notice.rule for notice in first} >= {
        "hardware/pcie_width",
        "fleet/ecc/uncorrected",
        "fleet/links/pcie",
        "fleet/silent_agents/clock",
        "fleet/drivers",
        "run/hbm_headroom",
    }
    assert len({notice.id for notice in first}) == len(first)


def test_hours_say_what_samples_say() -> None:
    """Whoever keeps a store up has its notices from the tier of hours, and nothing else changes by that."""
    fleet = sick()
    before = noticed(fleet)
    make_tier_tables(fleet.store)
    roll_up(fleet.store, 1e12, now_us=UNTIL + HOUR)
    with fleet.store.session() as session:
        session.execute(
            "DELETE FROM gpu_samples WHERE pcie_replay_events = 0 AND ecc_uncorrected_events = 0 AND started_at < ?",
            [UNTIL - 2 * HOUR],
        )
        after = notices_in(session, MONDAY, UNTIL).notices
        assert session.row("SELECT count(*) FROM gpu_hours")[0] > 0
    assert [(notice.rule, notice.subject) for notice in after] == [(notice.rule, notice.subject) for notice in before]


def test_finer_samples_say_the_same() -> None:
    """Of samples of ten seconds those are read in which five minutes end: they stand for the others."""
    coarse, fine = Fleet(), Fleet()
    for fleet, every in ((coarse, MINUTE), (fine, MINUTE // 6)):
        fleet.own("n1", ["n1-a"])
        fleet.sample("n1", "n1-a", MONDAY, MONDAY + HOUR, every=every, **WELL)
        with fleet.store.session() as session:
            notices_in(session, MONDAY, MONDAY + HOUR)
    counts = "SELECT hour, gpu_uuid, ms, utilization, sm, memory_max FROM notice_gpu_hours"
    answers = []
    for fleet in (coarse, fine):
        with fleet.store.session() as session:
            notices_in(session, MONDAY, MONDAY + HOUR)
            answers.append(session.rows(counts))
    assert answers[0] == answers[1] == [(MONDAY, "n1-a", HOUR // 1000, 990, 900, 40_000_000_000)]


def test_every_hardware_xid_has_its_remedy() -> None:
    """A number without a word for what to do is no help at three in the morning."""
    assert set(XIDS) == set(LIMITS.hardware_xids)


def test_every_rule_is_asked_once() -> None:
    """A rule that was written and is not in the list notices nothing, and no test of its own would say so."""
    written = [
        rule
        for module in (gpus, hosts, queues, runs, services)
        for name, rule in vars(module).items()
        if name.startswith("find_") or isinstance(rule, NoticeRule)
    ]
    assert len(RULES) == len(set(RULES))
    assert set(RULES) == set(written)


def test_every_word_is_said_by_a_rule() -> None:
    """Words that no rule takes are a rule that was forgotten, or a name that was typed wrong."""
    code = "".join(Path(str(module.__file__)).read_text("utf-8") for module in (gpus, hosts, queues, runs, services))
    made = ("hardware/", "fleet/silent_agents/", "fleet/fragmentation/", "serving/")  # of a prefix and a kind
    for rule in rows("notice"):
        prefix = next((prefix for prefix in made if rule.startswith(prefix)), "")
        assert f'"{rule.removeprefix(prefix)}"' in code, rule


def test_every_number_is_documented() -> None:
    """docs/notices.md gives each with where it comes from."""
    text = (Path(__file__).parents[3] / "docs" / "notices.md").read_text("utf-8")
    for field in fields(LIMITS):
        value = getattr(LIMITS, field.name)
        shown = ", ".join(map(str, value)) if isinstance(value, tuple) else value
        assert f"| `{field.name}` | {shown} | " in text
