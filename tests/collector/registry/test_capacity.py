"""Requests for more GPUs rest in the registry with all of their history, on both databases."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from collector.errors import FullError, RegistryError
from collector.registry import Bounds, CapacityEvent, CapacityRequest, PilotsSeen, Registry, open_registry

NOW = 1_795_000_000_000_000
DAY = 86_400_000_000


def asked(id: str = "q-7kq2x", at: int = NOW, **changes: object) -> CapacityRequest:  # noqa: A002
    """Return a request."""
    one = CapacityRequest(id, f"digest of {id}", "team-nlp", False, "FAIL", at, "k3")
    return replace(one, **changes)  # type: ignore[arg-type]


def decided(of: CapacityRequest, verdict: str | None = None) -> CapacityEvent:
    """Return a decision on it."""
    return CapacityEvent(of.id, of.asked_at, "decided", "k3", "owner", verdict or of.verdict, decided="{}")


def waived(of: CapacityRequest, gate: str, verdict: str = "FAIL") -> CapacityEvent:
    """Return a waiver."""
    return CapacityEvent(of.id, of.asked_at + 1, "waived", "k7", "approver", verdict, gate, "the release")


def test_a_request_has_its_history_and_the_audit_has_it_too(registry: Registry) -> None:
    """Who asked and who waived is told twice, in one transaction; the request bears the verdict that holds."""
    one = asked()
    registry.capacity.add(one, decided(one))
    ((last, _),) = registry.capacity.history(one.id)
    assert registry.capacity.waive(waived(one, "useful", "PASS"), last)
    assert registry.capacity.find(one.id) == replace(one, verdict="PASS")
    assert [event for _, event in registry.capacity.history(one.id)] == [decided(one), waived(one, "useful", "PASS")]
    assert [(entry.actor, entry.action, entry.subject, entry.detail) for entry in registry.audit.since(0)] == [
        ("k3", "ask for capacity", "q-7kq2x", "team-nlp: FAIL"),
        ("k7", "waive gate", "q-7kq2x", "useful: the release"),
    ]


def test_of_many_decisions_the_last_alone_is_read_whole(registry: Registry) -> None:
    """A list shows hundreds of requests, and each may have been decided a thousand times."""
    one = asked()
    for verdict in ("FAIL", "PASS", "FAIL"):
        registry.capacity.add(one, decided(one, verdict))
    history = [event for _, event in registry.capacity.history(one.id)]
    assert [(event.verdict, event.decided is None) for event in history] == [
        ("FAIL", True),
        ("PASS", True),
        ("FAIL", False),
    ]


def test_a_waiver_of_what_has_changed_meanwhile_is_not_taken(registry: Registry) -> None:
    """Whoever waives has seen the gates of that decision, and no later one."""
    one = asked()
    registry.capacity.add(one, decided(one))
    ((seen, _),) = registry.capacity.history(one.id)
    registry.capacity.add(one, decided(one, "INCOMPLETE"))
    assert not registry.capacity.waive(waived(one, "useful"), seen)
    assert len(registry.capacity.history(one.id)) == 2


def test_a_decision_and_a_waiver_at_once_come_one_after_the_other(opened: Callable[[], Registry]) -> None:
    """A waiver never stands after a decision that its maker had not seen, on PostgreSQL neither."""
    registries, one = [opened() for _ in range(2)], asked()
    registries[0].capacity.add(one, decided(one))
    for _ in range(25):
        seen = registries[0].capacity.history(one.id)[-1][0]
        start = threading.Barrier(2)
        taken: list[bool] = []

        def waive(start: threading.Barrier, taken: list[bool], seen: int) -> None:
            start.wait()
            taken.append(registries[0].capacity.waive(waived(one, "useful"), seen))

        thread = threading.Thread(target=waive, args=(start, taken, seen))
        thread.start()
        start.wait()
        registries[1].capacity.add(one, decided(one))
        thread.join()
        kinds = [event.kind for number, event in registries[0].capacity.history(one.id) if number > seen]
        assert kinds == (["waived", "decided"] if taken == [True] else ["decided"])


def test_of_many_who_waive_at_once_one_is_first(opened: Callable[[], Registry]) -> None:
    """Several servers of one site: each waiver stands on the history that its maker saw."""
    registries, one = [opened() for _ in range(4)], asked()
    registries[0].capacity.add(one, decided(one))
    ((seen, _),) = registries[0].capacity.history(one.id)
    start, taken = threading.Barrier(4), []

    def waive(registry: Registry, number: int) -> None:
        start.wait()
        taken.append(registry.capacity.waive(waived(one, f"gate {number}"), seen))

    threads = [threading.Thread(target=waive, args=(each, number)) for number, each in enumerate(registries)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False, False, False, True]


def test_an_id_is_one_request(registry: Registry) -> None:
    """Asked again, it is the same; another request under this id is refused, and leaves nothing."""
    one = asked()
    registry.capacity.add(one, decided(one))
    registry.capacity.add(replace(one, asked_at=NOW + 5), decided(one, "PASS"))
    assert registry.capacity.find(one.id) == replace(one, verdict="PASS")
    with pytest.raises(RegistryError, match="is a different request"):
        registry.capacity.add(replace(one, digest="of something else"), decided(one))
    assert len(registry.capacity.history(one.id)) == 2


def test_a_list_is_of_a_span_and_of_teams_the_newest_first(registry: Registry) -> None:
    """Pages go on where the last one ended, also among requests of one moment."""
    for number in range(6):
        one = asked(f"q-aaaa{number}", NOW + number // 2 * DAY, team=("a", "b")[number % 2])
        registry.capacity.add(one, decided(one))
    ids = [one.id for one in registry.capacity.listed(0, NOW + 9 * DAY)]
    assert ids == [f"q-aaaa{number}" for number in (5, 4, 3, 2, 1, 0)]
    assert [one.id for one in registry.capacity.listed(NOW + DAY, NOW + 2 * DAY)] == ["q-aaaa3", "q-aaaa2"]
    assert [one.id for one in registry.capacity.listed(0, NOW * 2, ["a"])] == ["q-aaaa4", "q-aaaa2", "q-aaaa0"]
    assert registry.capacity.listed(0, NOW * 2, []) == []
    walked: list[str] = []
    before = None
    while page := registry.capacity.listed(0, NOW * 2, limit=1, before=before):
        walked += [one.id for one in page]
        before = (page[-1].asked_at, page[-1].id)
    assert walked == ids
    assert registry.capacity.ids("q-aaaa") == sorted(ids)
    assert registry.capacity.ids("q-a%") == []


def test_of_pilots_at_once_one_is_the_first(opened: Callable[[], Registry]) -> None:
    """Several servers of one site count and keep in one transaction, on PostgreSQL too."""
    registries = [opened() for _ in range(6)]
    start, verdicts = threading.Barrier(6), list[str]()

    def ask(registry: Registry, number: int) -> None:
        seen = registry.capacity.pilots("team-nlp", NOW - DAY, f"q-aaaa{number}")
        start.wait()
        while True:
            one = asked(f"q-aaaa{number}", pilot=True, verdict="PASS" if seen == 0 else "FAIL")
            if registry.capacity.add(one, decided(one), PilotsSeen(NOW - DAY, seen)):
                break
            seen = registry.capacity.pilots("team-nlp", NOW - DAY, one.id)
        verdicts.append(one.verdict)

    threads = [threading.Thread(target=ask, args=(each, number)) for number, each in enumerate(registries)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(verdicts) == ["FAIL"] * 5 + ["PASS"]


def test_a_team_has_so_many_requests_and_no_more(where: str | Path) -> None:
    """One team cannot take the place of all others; an old request of it may still be decided anew."""
    with open_registry(where, Bounds(2, 400)) as registry:
        mine = [asked(f"q-aaaa{number}") for number in range(3)]
        assert all(registry.capacity.add(one, decided(one)) for one in mine[:2])
        with pytest.raises(FullError, match="2 capacity requests, the maximum per team"):
            registry.capacity.add(mine[2], decided(mine[2]))
        assert registry.capacity.find(mine[2].id) is None
        assert registry.capacity.add(mine[0], decided(mine[0], "PASS"))
        other = asked("q-bbbb1", team="team-vision")
        assert registry.capacity.add(other, decided(other))


def test_a_request_goes_so_long_after_its_last_entry(where: str | Path) -> None:
    """With its history; the audit says that, and what was decided stays there for its own time."""
    with open_registry(where, Bounds(1000, 10)) as registry:
        old, waived_late = asked("q-aaaa1"), asked("q-aaaa2")
        for one in (old, waived_late):
            registry.capacity.add(one, decided(one))
        ((last, _),) = registry.capacity.history(waived_late.id)
        late = replace(waived(waived_late, "useful"), at=NOW + 9 * DAY)
        assert registry.capacity.waive(late, last)
        assert registry.capacity.expire(NOW + 10 * DAY) == 0  # the tenth day is not over
        assert registry.capacity.expire(NOW + 10 * DAY + 1) == 1
        assert registry.capacity.find(old.id) is None
        assert registry.capacity.history(old.id) == []
        assert len(registry.capacity.history(waived_late.id)) == 2
        assert not registry.capacity.waive(waived(old, "useful"), 1)
        entries = [(entry.actor, entry.action, entry.detail) for entry in registry.audit.since(0)]
        assert entries[-1] == ("gpuledger", "forget capacity requests", "1 without an entry for 10 days")
        assert ("k3", "ask for capacity", "team-nlp: FAIL") in entries


def test_a_new_request_makes_room_by_itself(where: str | Path) -> None:
    """A site that has no server running has nobody else who would forget what is old."""
    with open_registry(where, Bounds(1, 10)) as registry:
        old, new = asked("q-aaaa1"), asked("q-aaaa2", NOW + 11 * DAY)
        registry.capacity.add(old, decided(old))
        assert registry.capacity.add(new, decided(new))
        assert registry.capacity.ids("q-") == [new.id]


def test_pilots_of_a_team_are_counted(registry: Registry) -> None:
    """Those that passed, since a day, and not the one that asks."""
    kinds = ((True, "PASS", "team-nlp"), (True, "FAIL", "team-nlp"), (False, "PASS", "team-nlp"), (True, "PASS", "b"))
    for number, (pilot, verdict, team) in enumerate(kinds):
        one = asked(f"q-aaaa{number}", pilot=pilot, verdict=verdict, team=team)
        registry.capacity.add(one, decided(one))
    assert registry.capacity.pilots("team-nlp", NOW, "q-none") == 1
    assert registry.capacity.pilots("team-nlp", NOW, "q-aaaa0") == 0
    assert registry.capacity.pilots("team-nlp", NOW + 1, "q-none") == 0
