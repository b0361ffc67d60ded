"""What the registry keeps of alarms, on both databases: said once, by one process, and posts that wait."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from collector.registry import AlarmChange, AlarmPost, KeptAlarm, Registry
from collector.registry.alarms import KEPT_US

NOW = 1_795_000_000_000_000
ONE = KeptAlarm("f-aaaaa", NOW, "team-a", False, None, None, "{}")
URGENT = replace(ONE, id="n-bbbbb", team=None, urgent=True)


def a_post(id_: str, made_at: int = NOW) -> AlarmPost:
    """Return a post that waits."""
    return AlarmPost(id_, "queued", made_at, 0, made_at, None, "", "{}")


def test_two_processes_that_look_at_once_say_it_once(opened: Callable[[], Registry]) -> None:
    """While the lease of the analyzer changes hands, both may look."""
    first, second = opened().alarms, opened().alarms
    for alarms, now in ((first, NOW), (second, NOW + 5)):
        new = replace(ONE, opened_at=now)
        alarms.change(AlarmChange([new], {ONE.id: a_post(f"{ONE.id}.{now}.opened")}, {}), now)
    assert [(one.id, one.opened_at, one.said_at) for one in first.lasting()] == [(ONE.id, NOW, NOW)]
    assert [post.id for post in second.due(NOW + 5, 10)] == [f"{ONE.id}.{NOW}.opened"]


def test_what_ended_may_come_again_and_is_said_again(registry: Registry) -> None:
    """A host that falls silent twice is two alarms."""
    alarms = registry.alarms
    alarms.change(AlarmChange([ONE], {ONE.id: a_post("1")}, {}), NOW)
    alarms.change(AlarmChange([], {}, {ONE.id: a_post("2")}), NOW + 10)
    assert alarms.lasting() == []
    assert [one.ended_at for one in alarms.ended_since(NOW + 10)] == [NOW + 10]
    alarms.change(AlarmChange([replace(ONE, opened_at=NOW + 20)], {ONE.id: a_post("3")}, {}), NOW + 20)
    assert [one.said_at for one in alarms.lasting()] == [NOW + 20]
    assert {post.id for post in alarms.due(NOW + 20, 10)} == {"1", "2", "3"}


def test_the_days_count_leaves_out_the_urgent_and_what_was_held_back(registry: Registry) -> None:
    """Three dark hosts must not silence a team for the day."""
    alarms = registry.alarms
    held = replace(ONE, id="f-ccccc")
    alarms.change(AlarmChange([ONE, URGENT, held], {ONE.id: None, URGENT.id: None}, {}), NOW)
    assert alarms.said_since(NOW) == {"team-a": 1}
    assert alarms.said_since(NOW + 1) == {}


def test_posts_wait_for_their_turn_and_are_settled(registry: Registry) -> None:
    """What the receiver did not take comes back when its wait is over, and no sooner."""
    alarms = registry.alarms
    alarms.change(AlarmChange([ONE], {ONE.id: a_post("1")}, {}), NOW)
    (post,) = alarms.due(NOW, 10)
    alarms.settle(replace(post, attempts=1, next_at=NOW + 60, told="503"))
    assert alarms.due(NOW + 59, 10) == []
    (again,) = alarms.due(NOW + 60, 10)
    alarms.settle(replace(again, state="sent", attempts=2, done_at=NOW + 61, body=None))
    assert alarms.due(NOW + 99, 10) == []
    assert [(one.state, one.attempts, one.body) for one in alarms.posts(("sent",), 5)] == [("sent", 2, None)]


def test_what_waits_and_what_is_over_is_bounded(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that is gone for good must not fill the registry."""
    alarms = registry.alarms
    monkeypatch.setattr("collector.registry.alarms.WAITING_MOST", 2)
    for number in range(3):
        new = replace(ONE, id=f"f-{number}")
        alarms.change(AlarmChange([new], {new.id: a_post(str(number), NOW + number)}, {}), NOW + number)
    assert [post.id for post in alarms.due(NOW + 9, 10)] == ["1", "2"]
    assert [(post.id, post.body) for post in alarms.posts(("failed",), 10)] == [("0", None)]
    alarms.change(AlarmChange([], {}, {"f-0": None}), NOW + 9)
    alarms.change(AlarmChange([], {}, {}), NOW + KEPT_US + 10)
    assert alarms.posts(("failed",), 5) == []
    assert alarms.ended_since(0) == []
