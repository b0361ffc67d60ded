"""Which findings wake somebody, and how often: pure, with properties."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.interfaces.alarms.alarm import OPEN_MOST, Alarm, Floor, alarming, turn, urgent_notices
from tests.analyzer.recommendations.sites import finding

FLOOR = Floor.of(100, 48)
HOUR_MS = 3_600_000


def a_finding(state: str = "starved", cause: str = "storage", dollars: int | None = 500, **more: object) -> Finding:
    """Return a finding that is told, unless something of it is changed."""
    made = finding(state, cause, "slurm/a/1", milliseconds=40 * HOUR_MS)
    micros = None if dollars is None else dollars * 1_000_000
    standard = {"confidence": "high", "still_open": True, "suspicion": False, "at_stake_micros": micros}
    return replace(made, **(standard | more))  # type: ignore[arg-type]


def told(one: Finding, quiet: bool = False) -> bool:
    """Return whether somebody hears of it."""
    return alarming([one], lambda _: quiet, FLOOR) == [one]


def test_only_what_is_sure_open_dear_and_unanswered_is_told() -> None:
    """Each alarm that was none takes the next ten their readers."""
    assert told(a_finding())
    assert not told(a_finding(dollars=99))
    assert not told(a_finding(confidence="medium"))
    assert not told(a_finding(still_open=False))
    assert not told(a_finding(suspicion=True))
    assert not told(a_finding(), quiet=True)


def test_without_a_price_gpu_hours_decide() -> None:
    """A site that has not written its prices yet must hear of a fleet that stands still."""
    assert not told(a_finding(dollars=None))
    assert told(a_finding(dollars=None, milliseconds=48 * HOUR_MS))


def test_a_lost_gpu_and_a_hang_are_told_whatever_they_cost() -> None:
    """Nobody waits for a hundred dollars to learn that a run moves nothing."""
    assert told(a_finding("broken", "gpu_lost", 0))
    assert told(a_finding("communicating", "hang", 0, confidence="medium"))
    assert not told(a_finding("communicating", "hang", 0), quiet=True)


def test_of_too_many_the_urgent_and_the_dearest_are_told() -> None:
    """A fleet that is wholly down must not fill the memory of who is told."""
    many = [a_finding(dollars=200 + number, id=f"f-{number}") for number in range(OPEN_MOST)]
    lost = a_finding("broken", "gpu_lost", 0, id="f-lost")
    found = alarming([*many, lost], lambda _: False, FLOOR)
    assert len(found) == OPEN_MOST
    assert found[0] is lost
    assert many[0] not in found


def test_of_notices_only_xids_and_silence_are_told() -> None:
    """What is worth a look some day waits for the page."""
    rules = ("fleet/ecc/xid", "fleet/silent_agents/silent", "fleet/drivers", "fleet/silent_agents/clock")
    notices = [Notice(f"n-{rule}", rule, "n1", "words", "platform") for rule in rules]
    assert [one.rule for one in urgent_notices(notices)] == ["fleet/ecc/xid", "fleet/silent_agents/silent"]
    assert not urgent_notices([replace(notices[0], confidence="low")])


def an_alarm(number: int, team: str | None, urgent: bool) -> Alarm:
    """Return one of a few alarms."""
    return Alarm(f"f-{number}", "starved/storage", urgent, team, "run", "It waits.", None, None, 0, None)


_ALARMS = st.lists(
    # An id is made of its team too, and so never changes hands.
    st.builds(lambda n, urgent: an_alarm(n, ("a", "b", None)[n % 3], urgent), st.integers(0, 40), st.booleans()),
    unique_by=lambda alarm: alarm.id,
    max_size=30,
)


@given(st.lists(_ALARMS, max_size=12), st.integers(0, 4))
def test_each_is_said_once_and_of_a_team_no_more_than_its_limit_a_day(days: list[list[Alarm]], a_day: int) -> None:
    """Whatever comes, goes and comes again: the urgent at once, the others within the limit, none twice while it lasts.

    Two looks a day; what the first day held back is said on a later one, if it is still there.
    """
    kept: dict[str, bool] = {}  # whether it was said
    teams: dict[str, str | None] = {}
    for present in days:
        today: Counter[str | None] = Counter()
        for _ in range(2):
            change = turn(present, kept, lambda team, today=today: today[team], a_day)  # type: ignore[misc]
            assert not any(kept.get(alarm.id) for alarm in change.said)
            today.update(alarm.team for alarm in change.said if not alarm.urgent)
            for id_ in change.ended:
                del kept[id_]
            for alarm in change.opened:
                kept[alarm.id], teams[alarm.id] = False, alarm.team
            for alarm in change.said:
                kept[alarm.id] = True
        assert all(count <= a_day for count in today.values())
        assert set(kept) == {alarm.id for alarm in present}
        assert all(kept[alarm.id] for alarm in present if alarm.urgent)
        waiting = Counter(teams[id_] for id_, said in kept.items() if not said)
        assert all(today[team] == a_day for team in waiting)
