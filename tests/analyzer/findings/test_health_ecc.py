"""Memory errors and Xids: what needs a hand, what is a trend, and what nobody told."""

from collections.abc import Iterator
from typing import Any

import pytest

from analyzer.findings.health.gpus import Memory, memory_notices
from analyzer.interfaces.alarms.alarm import urgent_notices
from tests.analyzer.findings.health_fleets import (
    NODES,
    UNTIL,
    WELL,
    gpus,
    hosts,
    not_judged,
    noticed,
    own_notices,
    well,
)
from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet

WEEKS = {2: 400, 1: 1_000, 0: 2_500}

one_pass = OnePass(lambda store, _: store.analyze(UNTIL))


@pytest.mark.parametrize(
    ("memory", "kinds"),
    [
        (Memory("n1", "a"), []),
        (Memory("n1", "a", xids={31: 4, 43: 1}), []),  # a program's own faults
        (Memory("n1", "a", xids={79: 1}), ["xid"]),
        (Memory("n1", "a", xids={48: 1}, uncorrected=1), ["xid"]),  # one fault, one notice
        (Memory("n1", "a", uncorrected=2), ["uncorrected"]),
        (Memory("n1", "a", remapped=3, remapped_before=2), []),
        (Memory("n1", "a", remapped=9, remapped_before=9), []),  # old
        (Memory("n1", "a", remapped=9, remapped_before=8), ["remapped"]),
        (Memory("n1", "a", corrected=WEEKS), ["corrected"]),
        (Memory("n1", "a", corrected={0: 2_500}), []),  # a burst is no trend
        (Memory("n1", "a", corrected={2: 2_400, 1: 2_500, 0: 2_600}), []),  # level
        (Memory("n1", "a", corrected={2: 4, 1: 10, 0: 25}), []),  # of no weight
    ],
)
def test_each_fault_is_one_notice(memory: Memory, kinds: list[str]) -> None:
    """Corrected errors are what ECC is for; a reset for each of them would cost more than it saves."""
    assert [notice.rule.removeprefix("fleet/ecc/") for notice in memory_notices(memory)] == kinds


def test_the_gravest_xid_says_what_to_do() -> None:
    """A board that is to be replaced must not read as one that is to be reset."""
    (notice,) = memory_notices(Memory("n1", "a", xids={63: 5, 64: 1}))
    assert "replaced" in notice.sentence
    assert len(notice.evidence) == 2


@one_pass
def test_xids_are_found_in_samples(fleet: Fleet) -> Iterator[None]:
    """The number of each interval's last Xid is what agents tell."""
    hosts({"n2-a": {"xid_events": 1, "xid_last": 94}}, into=fleet)
    yield
    (notice,) = own_notices(fleet, "fleet/ecc")
    assert (notice.node, notice.gpu_uuid, notice.rule) == ("n2", "n2-a", "fleet/ecc/xid")


@one_pass
def test_a_hardware_xid_before_a_clean_up_is_found(fleet: Fleet) -> Iterator[None]:
    """A double-bit error, the row that is marked, and the channel that ends: the last is a program's, the first is not.

    After a silence how many came is unknown, and which is not.
    """
    said = {"xid_events": 3, "xid_last": 43, "xid_numbers": "48,63,43"}
    hosts({"n2-a": said, "n3-a": said | {"xid_events": None}}, into=fleet)
    yield
    notices = own_notices(fleet, "fleet/ecc")
    assert [(notice.gpu_uuid, notice.rule) for notice in notices] == [
        (gpu, "fleet/ecc/xid") for gpu in ("n2-a", "n3-a")
    ]
    for notice in notices:
        assert [one.what for one in notice.evidence] == ["Xid 48", "Xid 63"]
    assert urgent_notices(notices) == notices


@one_pass
def test_numbers_that_are_none_accuse_nobody(fleet: Fleet) -> Iterator[None]:
    """A host may send any text."""
    said = {"xid_events": 1, "xid_last": 43}
    texts = ("", "x,y", "43,,43", "9" * 40, "-79", "0")
    every = [gpu for node in NODES for gpu in gpus(node)]
    told = {gpu: said | {"xid_numbers": text} for gpu, text in zip(every, texts, strict=False)}
    assert len(told) == len(texts)
    hosts(told, into=fleet)
    yield
    assert own_notices(fleet, "fleet/ecc") == []
    assert not_judged(fleet, "fleet/ecc/corrected") == ["a trend needs 3 weeks of data, and the ledger has less"]


def test_a_rate_that_doubles_for_weeks_is_a_trend() -> None:
    """Over three weeks, of which the newest is the period that is asked about."""
    fleet, end = Fleet(), MONDAY + 21 * DAY
    fleet.own("n1", ["a"])
    for week, events in WEEKS.items():
        at = end - (week + 1) * 7 * DAY
        fleet.sample("n1", "a", at, at + HOUR, every=HOUR, **WELL | {"ecc_corrected_events": events})
    fleet.sample("n1", "a", end - HOUR, end, every=HOUR, **WELL)
    (notice,) = noticed(fleet, "fleet/ecc", until=end, start=end - 7 * DAY)
    assert "2,500 corrected memory errors this week, 1,000 the week before" in notice.sentence


def test_what_nobody_told_is_not_judged() -> None:
    """Silence about errors is no health."""
    silent: dict[str, Any] = {"ecc_corrected_events": None, "ecc_uncorrected_events": None, "xid_events": None}
    fleet = well({f"{node}-{gpu}": silent for node in ("n1", "n2", "n3", "n4") for gpu in "ab"})
    for kind in ("corrected", "uncorrected", "xid"):
        assert len(not_judged(fleet, f"fleet/ecc/{kind}")) == 1
