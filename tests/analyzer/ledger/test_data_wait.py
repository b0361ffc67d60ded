"""What a run itself says of its waits for data decides how much of its stand-still is starved."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from analyzer.findings.ledger_findings import findings
from analyzer.ledger.causes.input_starvation import by_own_word
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow, Verdict
from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, SECOND, Beside, Fleet

START, END = MONDAY, MONDAY + HOUR
POINT = 0.01

one_pass = OnePass(lambda store, _: store.analyze(END))


@dataclass(frozen=True)
class Case:
    """A run on one GPU: how much of its time it stood still, and how much of it is told as a wait (None: nothing)."""

    still: float
    waited: float | None
    sampled_every: int = 10 * SECOND
    told_every: int = 10 * SECOND
    step: int = SECOND  # a wait is told after it, and none between
    begins: int = START  # to work; it is held from START on
    ends: int = END
    telling_from: int = START
    has_utilization: bool = True


def tell(fleet: Fleet, node: str, run: str, case: Case) -> None:
    """Tell of the waits as agents do: what the total has grown by since the last reading, where a step has ended."""
    rows = []
    for at in range(max(case.begins, case.telling_from), case.ends, case.told_every):
        until = min(at + case.told_every, case.ends)
        steps = (until - START) // case.step - (at - START) // case.step
        waited = None if case.waited is None or not steps else steps * case.step * case.waited / SECOND
        rows.append({"node": node, "started_at": at, "ended_at": until, "run_id": run, "data_wait_seconds": waited})
    fleet.add("progress", rows)


def booked(cases: Sequence[Case]) -> list[dict[str, float]]:
    """Return the share of each state of each case, of its time at work; all of them in one store."""
    fleet = Fleet()
    work(fleet, cases)
    fleet.analyze(END)
    return shares_of(fleet, cases)


def work(fleet: Fleet, cases: Sequence[Case]) -> None:
    """Add the runs of these cases, each on a host of its own."""
    for number, case in enumerate(cases):
        node, gpu, run = f"n{number}", f"G{number}", f"slurm/alpha/{number}"
        fleet.own(node, [gpu])
        fleet.hold(run, node, [gpu], START, case.ends)
        busy = {"utilization_ratio": 1 - case.still, "sm_active_ratio": 0.9 * (1 - case.still)}
        values = busy | {"utilization_zero_ratio": None}
        if not case.has_utilization:
            values["utilization_ratio"] = None
        fleet.sample(node, gpu, case.begins, case.ends, every=case.sampled_every, **values)
        if case.waited is not None:
            tell(fleet, node, run, case)


def shares_of(fleet: Fleet, cases: Sequence[Case]) -> list[dict[str, float]]:
    """Return what is booked of them."""
    found = []
    for number, case in enumerate(cases):
        shares: dict[str, float] = {}
        for (state, _), ms in fleet.states(f"slurm/alpha/{number}").items():
            shares[state] = shares.get(state, 0.0) + ms * 1000 / (case.ends - case.begins)
        found.append(shares)
    return found


EVERY = st.sampled_from([SECOND, 7 * SECOND, 10 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE])


# A shrunk case says no more, and takes minutes; the first that is drawn is of sixteen that are alike.
@settings(max_examples=2, deadline=None, phases=(Phase.generate,))
@given(
    st.lists(
        st.builds(
            lambda waited, more, **others: Case((waited + more) / 100, waited / 100, **others),
            st.integers(1, 70),
            st.integers(0, 20),
            sampled_every=st.sampled_from([10 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE]),
            told_every=EVERY,
            step=st.sampled_from([SECOND // 2, SECOND, 20 * SECOND, 2 * MINUTE]),
        ),
        min_size=16,
        max_size=16,
    )
)
def test_told_waits_are_the_starved_share(cases: list[Case]) -> None:
    """Whatever the intervals of either, and however much more the GPU stood still for another reason."""
    for case, shares in zip(cases, booked(cases), strict=True):
        assert case.waited is not None
        assert shares.get("starved", 0.0) == pytest.approx(case.waited, abs=POINT), case
        rest = case.still - case.waited
        if rest > 0.05 + POINT or rest < 0.05 - POINT:  # between, a window more or less is noise
            unexplained = rest if rest > 0.05 else 0.0
            assert shares.get("unexplained", 0.0) == pytest.approx(unexplained, abs=2 * POINT), case


@one_pass
def test_what_the_gpu_worked_through_was_no_loss(fleet: Fleet) -> Iterator[None]:
    """A loop waits for data while its GPU still computes what it was given: that wait cost nothing."""
    cases = [Case(0.0, 0.4), Case(0.25, 0.4)]
    work(fleet, cases)
    yield
    busy, partly = shares_of(fleet, cases)
    assert busy == {"productive": 1.0}
    assert partly["starved"] == pytest.approx(0.25, abs=POINT)
    assert "unexplained" not in partly


@one_pass
def test_a_run_that_says_that_it_did_not_wait_is_not_starved(fleet: Fleet) -> Iterator[None]:
    """Its loader may be as busy as it likes: the stand-still is of something else, and nobody knows of what."""
    cases = [Case(0.4, 0.0), Case(0.4, None)]
    work(fleet, cases)
    yield
    told, silent = shares_of(fleet, cases)
    assert told["unexplained"] == pytest.approx(0.4, abs=POINT)
    assert "starved" not in told
    assert silent == told, "where it says nothing and its host neither, it is unexplained as before"


@one_pass
def test_where_nothing_measures_a_stand_still_the_word_alone_counts(fleet: Fleet) -> Iterator[None]:
    """A slice of a GPU has SM activity and no utilization; that no kernel ran was not seen, and not denied."""
    cases = [Case(0.3, 0.3, has_utilization=False)]
    work(fleet, cases)
    yield
    (sliced,) = shares_of(fleet, cases)
    assert sliced["starved"] == pytest.approx(0.3, abs=POINT)


@one_pass
def test_a_wait_before_the_first_work_is_starting(fleet: Fleet) -> Iterator[None]:
    """The first batch may take minutes, which are no waits of the time in which the run worked."""
    cases = [Case(0.1, 0.1, begins=START + 7 * MINUTE)]
    work(fleet, cases)
    yield
    (late,) = shares_of(fleet, cases)
    assert late["starved"] == pytest.approx(0.1, abs=POINT)


@one_pass
def test_a_word_on_a_part_of_ten_minutes_is_none_on_the_rest(fleet: Fleet) -> Iterator[None]:
    """A run that begins to tell of it is judged by its word from the first ten minutes on that it mostly covers."""
    cases = [Case(0.4, 0.2, telling_from=START + 28 * MINUTE)]
    work(fleet, cases)
    yield
    (begins,) = shares_of(fleet, cases)
    assert begins["starved"] == pytest.approx(0.2 * 30 / 60, abs=POINT)
    assert begins["unexplained"] == pytest.approx((0.4 * 30 + 0.2 * 30) / 60, abs=POINT)


def test_it_is_the_same_however_late_and_in_however_many_passes_it_came() -> None:
    """Words reach over hours, and those of the second host come when all else is booked."""

    def begun() -> Fleet:
        fleet = Fleet()
        for node in ("n0", "n1"):
            fleet.own(node, [f"{node}G"])
            fleet.hold("slurm/alpha/0", node, [f"{node}G"], START, START + 3 * HOUR)
            fleet.sample(node, f"{node}G", START, START + 3 * HOUR, utilization_ratio=0.6, utilization_zero_ratio=0.4)
        return fleet

    words = [
        {"node": "n1", "started_at": at, "ended_at": at + 7 * SECOND, "run_id": "slurm/alpha/0", "data_wait_seconds": 2}
        for at in range(START, START + 3 * HOUR - 7 * SECOND, 14 * SECOND)
    ]
    at_once, late = begun(), begun()
    at_once.add("progress", words)
    at_once.analyze(START + 3 * HOUR)
    late.analyze(START + 3 * HOUR)
    assert late.rows() != at_once.rows()
    for part in (words[500:], words[:500]):
        late.add("progress", part)
        late.analyze(START + 3 * HOUR)
    assert late.states() == at_once.states()
    assert at_once.states()["starved", "unknown"] == pytest.approx(2 * 3 * 3_600_000 * 2 / 14, rel=POINT)


def test_a_word_that_cannot_be_is_none() -> None:
    """What stands in a store was not always checked; and nobody waits for longer than he lives."""
    store, run = Fleet(), "slurm/alpha/0"
    each: dict[float, Beside] = {}
    for wait in (-1.0, float("nan"), float("inf"), 1e300, 1e9):
        fleet = each[wait] = Beside(store, f"~{wait}")
        fleet.own("n0", ["G0"])
        fleet.hold(run, "n0", ["G0"], START, END)
        fleet.sample("n0", "G0", START, END, utilization_ratio=0.6, utilization_zero_ratio=0.4)
        row = {"node": "n0", "run_id": run, "data_wait_seconds": wait}
        fleet.add("progress", [row | {"started_at": START, "ended_at": START + 40 * 365 * 24 * HOUR}])
    store.analyze(END)
    for wait, fleet in each.items():
        states = fleet.states(run)
        starved = sum(ms for (state, _), ms in states.items() if state == "starved")
        assert sum(states.values()) == 3_600_000
        assert starved <= 0.4 * 3_600_000
        assert starved == 0 or wait == 1e9


def window(**values: object) -> RunWindow:
    """Return a window that stood still for a third of the time."""
    shares = {"activity": 600, "still": 333, "short": 0}
    usual = {"run_id": "r", "window_ms": 0, "gpus": 8, "ms": 8 * 600_000, "sm_ms": 0, "shares_ms": 0, **shares}
    return RunWindow(**{**usual, **values})  # type: ignore[arg-type]


def test_the_cause_is_the_physical_witnesses() -> None:
    """The run says how much, and not why: a full loader keeps its name and its confidence, and none gets a guess."""
    full = Verdict("r", 0, is_low=True, input_cause="preprocessing", input_confidence="medium")
    said = by_own_word(window(data_wait=200), full, Thresholds())
    assert (said.input_cause, said.input_confidence, said.starved_permille) == ("preprocessing", "medium", 600)
    assert said.is_low, "and the rest of the stand-still is unexplained"
    none = Verdict("r", 0, is_low=True, input_suspicion="loader_software")
    said = by_own_word(window(data_wait=333), none, Thresholds())
    assert (said.input_cause, said.input_confidence, said.starved_permille) == ("unknown", "high", 1000)
    assert (said.is_low, said.input_suspicion) == (False, None)


@pytest.mark.parametrize("cause", ["preprocessing", None])
def test_where_nothing_is_told_nothing_changes(cause: str | None) -> None:
    """Most runs say nothing of it."""
    verdict = Verdict("r", 0, is_low=True, input_cause=cause)
    assert by_own_word(window(), verdict, Thresholds()) is verdict


def test_the_evidence_names_the_runs_own_word() -> None:
    """An owner who reads it knows that it is the run's figure, and not our guess."""
    fleet = Fleet()
    fleet.own("n0", ["G0"])
    fleet.hold("slurm/alpha/0", "n0", ["G0"], START, END)
    fleet.sample("n0", "G0", START, END, utilization_ratio=0.7, utilization_zero_ratio=0.3, sm_active_ratio=0.6)
    tell(fleet, "n0", "slurm/alpha/0", Case(0.3, 0.25))
    fleet.analyze(END)
    with fleet.store.session() as session:
        (found,) = [one for one in findings(session, START, END) if one.state == "starved"]
    assert (found.cause, found.confidence) == ("unknown", "high")
    assert ("waits for data", "25% of the time, by its own clock") in [
        (line.what, line.seen) for line in found.evidence
    ]
