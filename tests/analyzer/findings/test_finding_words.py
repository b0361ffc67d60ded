"""The words of findings: one sentence each, no ranking, and nothing that the platform did is said of a run's owner."""

from dataclasses import replace

import pytest

from analyzer.findings.evidence import need, need_words, severity
from analyzer.findings.finding import figures, finding_sentence
from analyzer.findings.ledger_findings import findings
from analyzer.findings.words import finding_words, host_words, in_tense, limit_words, rows, run_words, share_words
from analyzer.states import BOOKINGS, booking
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY
from tests.analyzer.reports import example_week
from tests.analyzer.small_site import small_site
from tests.analyzer.windows import stalled

VALUES = {
    "Run": "Run R on n1",
    "run": "run R",
    "for_run": " for run R",
    "place": "n1",
    "gpu": ": G",
    "share": "4% of the time",
    "limit": "L",
    "cause": "C",
    "speedup": "2",
    "missing": "M",
}
AVOIDABLE = [(one.state, one.cause) for one in BOOKINGS if one.klass == "avoidable"]


@pytest.mark.parametrize("key", AVOIDABLE)
def test_every_avoidable_cause_has_its_words(key: tuple[str, str | None]) -> None:
    """A cause without words would fail in the middle of a report."""
    words = finding_words(*key)
    now, then = words.told(VALUES), words.told(VALUES, past=True)
    assert now.endswith(".")
    assert not {"{", "|"} & set(now + then)
    assert "{" not in words.what.format(**VALUES) + words.wrong_if.format(**VALUES)


@pytest.mark.parametrize("key", [key for key in AVOIDABLE if booking(*key).actor == "platform"])
def test_what_the_platform_did_is_said_of_its_hosts(key: tuple[str, str | None]) -> None:
    """An owner who reads "run R was throttled" defends the run; the subject is a host or a GPU, for a run."""
    sentence = finding_words(*key).sentence
    assert "{Run}" not in sentence
    assert "{run}" not in sentence
    assert "{for_run}" in sentence
    assert "{place}" in sentence or "{gpu}" in sentence
    assert not finding_words(*key).told(VALUES).lower().startswith(("run ", "job "))


def test_no_sentence_names_or_ranks_a_person() -> None:
    """Findings are of runs and hosts."""
    for words in [*rows("finding").values(), *rows("suspicion").values()]:
        assert not {"user", "owner", "worst", "top", "blame", "fault"} & set(words["sentence"].lower().split())


def test_hosts_are_named_shortly() -> None:
    """Two hosts are named, neighbours as a range, many counted; a host without a number stays itself."""
    assert host_words(["n15", "n14"]) == "n14–n15"
    assert host_words(["n02", "n10", "n9"]) == "n02, n9–n10"
    assert host_words([f"n{2 * place}" for place in range(12)]) == "12 hosts"
    assert host_words(["login"]) == "login"
    assert host_words([]) == "unknown hosts"
    assert run_words("sweep", 41) == "job sweep (41 runs)"
    assert (share_words(41, 100), share_words(1, 10_000)) == ("41% of the time", "under 1% of the time")
    assert share_words(1, 0) == "part of the time"


def test_the_counterfactual_is_named() -> None:
    """Bytes for each working GPU-second, times all of them: half of the time still needs twice the rate."""
    windows = [stalled(place, still=500, block_read=1_100_000_000, disk_busy=900) for place in range(3)]
    found = need(windows, "storage")
    assert found is not None
    assert in_tense(need_words(found), past=False) == "the local disk delivers 1.1 GB/s, this run needs 2.2"
    assert in_tense(need_words(found), past=True) == "the local disk delivered 1.1 GB/s, this run needed 2.2"
    assert limit_words("storage", windows) == need_words(found)
    assert need([stalled(0)], "storage") is None  # nobody counted its bytes
    assert need([stalled(0, still=999, block_read=1)], "storage") is None  # it hardly worked: nothing can be told
    assert severity([stalled(0, still=49)]) == "slight"
    assert severity([stalled(0, still=50)]) == "moderate"
    assert severity([stalled(0, still=200)]) == "severe"
    assert severity([]) is None


def test_the_loader_is_named_with_its_limit() -> None:
    """What the issue asks for: the workers, their cores, and the disk beside them."""
    windows = [stalled(place, busiest=995, workers=8, disk_busy=40) for place in range(3)]
    found = limit_words("preprocessing", windows)
    now, then = (in_tense(found, past=past) for past in (False, True))
    assert now == "the busiest of its 8 loader workers is at 100% of a core while the disk idles"
    assert then == "the busiest of its 8 loader workers was at 100% of a core while the disk idled"
    full = limit_words("preprocessing", [stalled(0, cpu_throttled=300)])
    assert in_tense(full, past=False) == "the cores it may use are saturated"


def test_one_sentence_says_who_where_why_how_much_and_since_when() -> None:
    """A person understands it without the report around it."""
    fleet = small_site()
    fleet.analyze()
    with fleet.store.session() as session:
        found = {one.cause: one for one in findings(session, MONDAY - DAY, MONDAY + DAY)}
    text = finding_sentence(found["preprocessing"], "USD", "UTC")
    assert text == (
        "Run slurm/alpha/preprocessing on i0 waited for its input 50% of the time: the busiest of its 4 loader workers "
        "was at 98% of a core while the disk idled; the loader delivered 16.7 MB/s, this run needed 33.3. 1.0 "
        "GPU-hours on Mon 10 Nov."
    )
    assert found["thermal"].claim.startswith("Heat slowed GPUs of s0 for run slurm/alpha/straggling")


def test_since_when_is_a_day_people_know() -> None:
    """A weekday within the week, else a date; what has ended has both ends."""
    one = replace(example_week.findings()[0], first_at=MONDAY, last_at=MONDAY + 30 * HOUR, milliseconds=3_600_000)
    assert figures(one, "USD", "UTC") == "1.0 GPU-hours, $1,677 since Monday"
    assert figures(replace(one, last_at=MONDAY + 8 * DAY), "USD", "UTC").endswith("since Mon 10 Nov")
    assert figures(replace(one, still_open=False), "USD", "UTC").endswith("from Mon 10 Nov to Tue 11 Nov")
    assert figures(replace(one, still_open=False, last_at=MONDAY + HOUR), "USD", "UTC").endswith("on Mon 10 Nov")
    assert figures(replace(one, at_stake_micros=1_230_000), "USD", "UTC").startswith("1.0 GPU-hours, $1.23 ")
    assert figures(replace(one, at_stake_micros=None), "USD", "UTC") == "1.0 GPU-hours since Monday"
