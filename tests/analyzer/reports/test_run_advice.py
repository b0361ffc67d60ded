"""What a run's report says of its recommendations: what was not looked at is not told as absent, and all are known."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from analyzer.interfaces.questions.registry import answer
from analyzer.recommendations.types import checkpointing
from analyzer.recommendations.types.checks import NO_TIMES, latency
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet
from tests.analyzer.recommendations.sites import finding, host, run, site, sound, text_of
from tests.analyzer.small_site import END, IDLE, T, small_site

FAILING = "slurm/alpha/saving"


def two_weeks() -> Fleet:
    """Return the small site, a run that saves and fails, and a week after it in which another one works."""
    fleet = small_site()
    fleet.own("c0", ["c0g0"])
    fleet.hold(FAILING, "c0", ["c0g0"], T, END, name="saving", exit_status="failed")
    fleet.sample("c0", "c0g0", T, END)
    moments = range(T + 10 * MINUTE, T + HOUR, 10 * MINUTE)
    said = {"node": "c0", "run_id": FAILING}
    fleet.add(
        "progress",
        [said | {"started_at": at - MINUTE, "ended_at": at, "steps": 10, "checkpoint": f"c{at}"} for at in moments],
    )
    fleet.own("w0", ["w0g0"])
    fleet.hold("slurm/alpha/later", "w0", ["w0g0"], MONDAY + 7 * DAY, MONDAY + 9 * DAY, name="later")
    fleet.sample("w0", "w0g0", MONDAY + 7 * DAY, MONDAY + 9 * DAY, every=HOUR)
    fleet.analyze(now=MONDAY + 16 * DAY)
    return fleet


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """Its reader; a week without a word is now the second."""
    fleet = two_weeks()
    with fleet.store.session() as session:
        yield Reader(session, Settings())


def test_a_run_that_saved_is_not_told_that_nobody_saw_it(reader: Reader) -> None:
    """Twenty lines below, its own report counts them."""
    text = answer(reader, Request("run", FAILING))
    assert "5 said by the run" in text
    assert "no checkpoint of it was observed" not in text
    (one,) = [each for each in reader.run(FAILING).recommendations if each.kind == "checkpoint"]
    assert "checkpoint every 10 min" in one.from_


def test_what_was_not_looked_at_is_not_told_as_absent() -> None:
    """No rule may say that there is none of what it did not read."""
    where = site([host("n1")], [run(exit_status="failed", stage="serving")])
    blind = replace(where, looks=frozenset())
    lost = finding("lost_work", "failed")
    seen, unseen = (sound(checkpointing.checkpoint(lost, each)) for each in (where, blind))
    assert "no checkpoint of it was observed" in seen.from_
    for said in (unseen.from_, unseen.constraints[0].told, text_of(unseen, "config")):
        assert "no checkpoint" not in said
        assert "not checked" in said
    told = [latency(each, [run(stage="serving")], None, "so it is") for each in (where, blind)]
    assert told[0] is not None
    assert NO_TIMES in told[0].told
    assert told[1] is not None
    assert NO_TIMES not in told[1].told
    assert "not checked" in told[1].told


def test_a_service_that_told_its_latency_is_told_so() -> None:
    """Its first tokens came after 149 ms in one of a hundred; its page says that, and not that it tells none."""
    fleet = Fleet()
    fleet.own("n1", ["G0"])
    fleet.hold("slurm/alpha/serve", "n1", ["G0"], MONDAY, MONDAY + 8 * HOUR, name="ranker-serve")
    fleet.sample("n1", "G0", MONDAY, MONDAY + HOUR, memory_used_bytes=10**10)
    fleet.sample("n1", "G0", MONDAY + HOUR, MONDAY + 8 * HOUR, memory_used_bytes=10**10, **IDLE)
    here = {"node": "n1", "run_id": "slurm/alpha/serve", "engine": "vllm", "slo_seconds": 0.5}
    spans = range(MONDAY, MONDAY + 8 * HOUR, MINUTE)
    fleet.add(
        "service_samples",
        [
            here
            | {"started_at": at, "ended_at": at + MINUTE, "requests": 10 if at < MONDAY + HOUR else 0}
            | {"first_token_seconds_p99": 0.149, "running": 0.0, "waiting": 0.0}
            for at in spans
        ],
    )
    fleet.analyze(now=MONDAY + DAY)
    with fleet.store.session() as session:
        report = Reader(session, Settings()).run("serve")
    assert report.recommendations
    for one in report.recommendations:
        assert one.latency is not None
        assert NO_TIMES not in one.latency.told
        assert one.latency.before_seconds == 0.149
