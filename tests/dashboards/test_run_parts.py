"""The parts of a run's page: what they say of a real ledger."""

from collections.abc import Iterator

import pytest

from analyzer.interfaces.text.efficiency_text import service_rows
from analyzer.interfaces.text.run_text import run_text
from analyzer.reports.reader import Reader
from analyzer.reports.run import FINDINGS_SHOWN, RunDocument, RunService
from analyzer.reports.run_timeline import Remembered, TimelineAsked, read_timeline
from analyzer.settings.settings import Settings
from analyzer.text.layout import TextLayout
from dashboards.pages.run_page import run_part
from tests.analyzer.ledger.amounts_site import SERVE, TRAIN, site
from tests.analyzer.ledger.fleet import Fleet
from tests.analyzer.reports.test_run_head import RUNS, two_runs
from tests.analyzer.small_site import small_site


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """Yield the small site, analysed; these tests read it."""
    made = small_site()
    made.analyze()
    with made.store:
        yield made


@pytest.fixture(scope="module")
def report() -> RunDocument:
    """Return what is known of a service."""
    with site().store.session() as session:
        return Reader(session, Settings()).run(SERVE)


def test_a_runs_page_tells_what_its_gpus_drew() -> None:
    """It is no line of the head, which is there at once and looks at no samples."""
    with two_runs().store.session() as session:
        sections = dict(run_part(Reader(session, Settings()), "rest", RUNS[0])["sections"])
    assert sections["Energy"] == [("drawn", "0.643 kWh at the GPUs")]


def test_a_runs_page_and_its_text_rule_out_the_same(fleet: Fleet) -> None:
    """Who reads that it is the loader asks on either whether it is not the disk."""
    with fleet.store.session() as session:
        reader = Reader(session, Settings())
        runs = [finding.run_ids[0] for finding in reader.findings(reader.period(None)) if finding.state == "starved"]
        shown = run_part(reader, "findings", runs[0])["ruled_out"]
        text = " ".join(run_text(reader.run(runs[0]), TextLayout()).split())
    assert isinstance(shown, dict)
    assert 0 < len(shown) <= FINDINGS_SHOWN
    told = [words for each in shown.values() for words in each]
    assert told
    assert all(words in text for words in told)


def test_a_service_tells_what_it_served_and_what_nobody_knows_of_it() -> None:
    """As it was booked, under its owner's name though its host told of a pod; errors that nobody reads are not none."""
    with site().store.session() as session:
        reader = Reader(session, Settings())
        served = dict(dict(run_part(reader, "rest", SERVE)["sections"])["Service"])
        text = " ".join(run_text(reader.run(SERVE), TextLayout()).split())
        assert "Service" not in dict(run_part(reader, "rest", TRAIN)["sections"])
        assert reader.run(TRAIN).service is None
    assert served["requests"] == "12,936, 0.0749 per second"
    assert served["errors"] == "576, 4.26% of requests"
    assert (served["prompt tokens"], served["generated tokens"]) == ("1,176, 23.5% of them from the cache", "117,600")
    assert served["first token"] == (
        "99 of 100 within 24 ms, within 46 ms in the worst twentieth of the time, promised 20 ms: "
        "kept 41.7% of the time"
    )
    assert served["between tokens"] == "99 of 100 within 2 ms, within 5 ms in the worst twentieth of the time"
    assert served["cost"] == "not known: a part of its GPU time has no price"
    assert "SERVICE requests 12,936" in text


def test_what_to_change_comes_before_the_evidence(fleet: Fleet) -> None:
    """The change of the largest loss that has one, with what it saves, leads to the finding it answers."""
    with fleet.store.session() as session:
        reader = Reader(session, Settings())
        found_in = reader.findings(reader.period(None))
        runs = dict.fromkeys(finding.run_ids[0] for finding in found_in if finding.run_ids)
        answers = {run: run_part(reader, "next", run)["answer"] for run in runs}
        found = {run: run_part(reader, "findings", run) for run in runs}
    assert any(answers.values())
    for run, answer in answers.items():
        answered = [one for one in found[run]["findings"] if any(one.id in c.finding_ids for c in found[run]["advice"])]
        assert (answer[0].id if answer else None) == (answered[0].id if answered else None)


def _served(**known: object) -> RunService:
    unknown = dict.fromkeys(RunService.__dataclass_fields__) | {"seconds": 3600.0}
    return RunService(**(unknown | known))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "cost"),
    [
        ({"requests": 2_000, "cost_micros": 5_000_000}, "$2.50 per 1,000 requests"),
        ({"tokens_out": 10**7, "cost_micros": 5_000_000}, "$0.50 per million generated tokens"),
        ({"tokens_in": 10**7, "cost_micros": 5_000_000}, "$0.50 per million prompt tokens"),
        (
            {"requests": 1_000, "tokens_in": 9 * 10**6, "tokens_out": 10**6, "cost_micros": 5_000_000},
            "$5.00 per 1,000 requests; $0.50 per million tokens, prompt and generated alike: "
            "how its time divides is not reported",
        ),
        ({"requests": 0, "cost_micros": 5_000_000}, "not known: it reports neither requests nor tokens"),
        ({"requests": 2_000}, "not known: a part of its GPU time has no price"),
    ],
)
def test_what_a_service_costs_is_told_by_what_it_counts(
    report: RunDocument, known: dict[str, object], cost: str
) -> None:
    """A split that nobody measured is not made up."""
    rows = dict(service_rows(report.model_copy(update={"service": _served(**known)})))
    assert rows["cost"] == cost
    assert rows["first token"] == "not reported"
    nothing = dict(service_rows(report.model_copy(update={"service": _served(engine="vllm")})))
    silent = {"requests", "errors", "prompt tokens", "generated tokens", "first token", "between tokens"}
    assert {nothing[name] for name in silent} == {"not reported by vllm"}
    few = dict(service_rows(report.model_copy(update={"service": _served(requests=0, requests_failed=0)})))
    assert (few["errors"], few["between tokens"]) == ("0", "not reported")
    slow = _served(inter_token_beyond_ratio=0.25, inter_token_p99_seconds=1.5)
    assert dict(service_rows(report.model_copy(update={"service": slow})))["between tokens"] == (
        "99 of 100 within 1.5 s, beyond the engine's last bucket 25.0% of the time"
    )


def test_a_service_has_its_signals_over_time() -> None:
    """Under whichever name its host told of it; a run that serves nothing has none of them."""
    with site().store.session() as session:
        of = {run: read_timeline(session, Remembered(), run, TimelineAsked(), "UTC").lanes for run in (SERVE, TRAIN)}
    titles = {run: [lane.title for lane in lanes] for run, lanes in of.items()}
    served = [
        "requests of a replica",
        "failed requests",
        "tokens generated",
        "first token (P99)",
        "between tokens (P99)",
    ]
    assert titles[SERVE][-5:] == served
    assert "requests of a replica" not in titles[TRAIN]
    assert max(value or 0 for value in of[SERVE][-2].most) == 0.048
