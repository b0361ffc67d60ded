"""What a run did names its stage where its names do not, and never changes what is booked."""

from collections.abc import Iterator
from typing import Any

from tests.analyzer.ledger.copies import OnePass, made_once
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

T = MONDAY
RUN = "slurm/alpha/1"
HOSTS = ("n1", "n2", "n3")
COMPUTING: dict[str, Any] = {"tensor_active_ratio": 0.45, "dram_active_ratio": 0.4, "nvlink_receive_bytes": 10**12}
DECODING: dict[str, Any] = {"sm_active_ratio": 0.5, "tensor_active_ratio": 0.05, "dram_active_ratio": 0.6}


one_pass = OnePass(lambda store, _: store.analyze(T + 3 * DAY))


def _runs(fleet: Fleet, names: dict[str, Any], kind: dict[str, Any], hosts: tuple[str, ...] = HOSTS) -> None:
    """Add a run of two days that is not over."""
    for node in hosts:
        fleet.own(node, [f"{node}g"])
        fleet.hold(RUN, node, [f"{node}g"], T, **({"name": "x"} | names))
        fleet.sample(node, f"{node}g", T, T + 2 * DAY, every=5 * MINUTE, **kind)


@made_once
def _computing() -> Fleet:
    """Return such a run that nobody named, analysed."""
    fleet = Fleet()
    _runs(fleet, {}, COMPUTING)
    fleet.analyze(now=T + 3 * DAY)
    return fleet


def _stage(fleet: Fleet) -> tuple[str, str, str]:
    with fleet.store.session() as session:
        word, confidence, reason = session.row(
            "SELECT stage, stage_confidence, stage_reason FROM runs WHERE run_id = ?", [f"{RUN}{fleet.names_end}"]
        )
        return word, confidence, reason


def test_many_hosts_that_exchange_for_days_look_like_pretraining() -> None:
    """Nobody named it; what it did is asked."""
    assert _stage(_computing()) == (
        "pretraining",
        "low",
        "by what it did: 3 hosts for 2.0 days, links busy in 100% of its time, no regular checkpoint seen",
    )


@one_pass
def test_its_queue_goes_before_what_it_did(fleet: Fleet) -> Iterator[None]:
    """A queue is chosen for what it is."""
    _runs(fleet, {"queue": "sft"}, COMPUTING)
    yield
    assert _stage(fleet) == ("fine-tuning", "medium", "by its queue")


@one_pass
def test_a_name_that_its_doings_deny_is_doubted(fleet: Fleet) -> Iterator[None]:
    """It decodes day and night and saves nothing: hardly a pretraining, but its owner named it so."""
    _runs(fleet, {"name": "pretrain-7b"}, DECODING, ("n1",))
    yield
    word, confidence, reason = _stage(fleet)
    assert (word, confidence) == ("pretraining", "low")
    assert reason.startswith("by its name, against what it did: decodes in 100% of its minutes")
    assert reason.endswith("as serving does")


@one_pass
def test_what_it_did_changes_nothing_that_is_booked(fleet: Fleet) -> Iterator[None]:
    """A service's stillness is headroom by its name alone: telemetry is known only after the hours are booked."""
    idle = {"utilization_ratio": 0.5, "utilization_zero_ratio": 0.5}
    _runs(fleet, {}, DECODING | idle | {"sm_active_ratio": 0.25, "tensor_active_ratio": 0.02}, ("n1",))
    yield
    assert _stage(fleet)[0] == "serving"
    assert not [cause for state, cause in fleet.states() if state == "headroom" or cause == "decode"]


def test_stage_and_ledger_are_the_same_however_passes_were_cut() -> None:
    """One pass at the end, or one after each half day."""
    at_once, bit_by_bit = _computing(), Fleet()
    for node in HOSTS:
        bit_by_bit.own(node, [f"{node}g"])
        bit_by_bit.hold(RUN, node, [f"{node}g"], T, name="x")
    for begun in range(T, T + 2 * DAY, 12 * HOUR):
        for node in HOSTS:
            bit_by_bit.sample(node, f"{node}g", begun, begun + 12 * HOUR, every=5 * MINUTE, **COMPUTING)
        bit_by_bit.analyze(now=T + 3 * DAY)
    assert _stage(bit_by_bit) == _stage(at_once)
    assert bit_by_bit.rows() == at_once.rows()
    with at_once.store.session() as one, bit_by_bit.store.session() as other:
        hours = "SELECT * FROM run_doings ORDER BY ALL"
        assert one.rows(hours) == other.rows(hours)


def test_a_pass_without_news_keeps_the_stage() -> None:
    """The table of runs is written anew by each pass; what was learned of days that it leaves alone stays."""
    fleet = _computing()
    before = _stage(fleet)
    assert fleet.analyze(now=T + 3 * DAY).hours == 0
    assert _stage(fleet) == before
