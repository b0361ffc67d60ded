"""What is counted of runs, and the tables that are made of it."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.truth.draw import Cell
from bench.truth.kept import README, Campaign
from bench.truth.runs import SimulatedRun, Truth
from bench.truth.score import Compared, compare_run, tally
from bench.truth.scores import Scores, bars
from bench.truth.tally import Tally, key_of, summed

CELL = Cell("storage_local", 3.0, 1, 10, gpm=True, dirty=False, seed=1)
HOUR = ("GPU", 0)


def _run() -> SimulatedRun:
    return SimulatedRun.make(CELL, 1200)


def _booked_as(run: SimulatedRun, **instead: str) -> Compared:
    """Return the run with its labels as bookings, some states replaced by productive work or another."""
    booked: dict[tuple[str, int], Counter[tuple[str, str | None]]] = {}
    for hour, labels in run.by_hour(0).items():
        here: Counter[tuple[str, str | None]] = Counter()
        for (state, cause), ms in labels.items():
            here[
                (instead[state], "compute" if instead[state] == "productive" else None)
                if state in instead
                else (state, cause)
            ] += ms
        booked[run.gpu_uuid(0), hour] = here
    return compare_run(run, booked, 0)


def test_a_ledger_that_says_the_truth_is_right_in_everything() -> None:
    """Otherwise the score itself would cost points."""
    one = _booked_as(_run())
    scores = Scores.of([tally(one, 2.6)])
    assert sum(one.matched.values()) == one.held_ms
    assert (scores.precision, scores.recall, scores.right_cause, scores.abstained) == (1, 1, 1, 0)


def test_what_is_booked_as_work_is_missed_and_costs_recall_alone() -> None:
    """A run that is not booked starved cannot cost precision."""
    scores = Scores.of([tally(_booked_as(_run(), starved="productive"), 2.6)])
    assert (scores.precision, scores.recall) == (None, 0)


def test_a_loss_that_is_booked_unexplained_is_an_abstention() -> None:
    """It is neither found nor denied."""
    scores = Scores.of([tally(_booked_as(_run(), starved="unexplained"), 2.6)])
    assert (scores.abstained, scores.recall) == (1, 0)


@settings(max_examples=30)
@given(
    true=st.dictionaries(st.sampled_from(["starved", "productive", "starting"]), st.integers(1, 10**6), min_size=1),
    shares=st.lists(st.integers(0, 100), min_size=3, max_size=3).filter(any),
)
def test_no_millisecond_is_compared_twice(true: dict[str, int], shares: list[int]) -> None:
    """Labels and bookings of an hour sum to the same; so must what is compared, up to rounding."""
    causes = {"starved": "storage", "productive": "compute", "starting": "warm_up"}
    labels: Truth = {(state, causes[state]): ms for state, ms in true.items()}
    total = sum(labels.values())
    booked: Counter[tuple[str, str | None]] = Counter(
        {
            (state, cause): total * share // sum(shares)
            for (state, cause), share in zip(causes.items(), shares, strict=True)
        }
    )
    booked["productive", "compute"] += total - booked.total()
    one = compare_run(_Labelled(labels), {HOUR: booked}, 0)  # type: ignore[arg-type]
    assert abs(sum(one.crossed.values()) - total) <= 9
    assert all(ms >= 0 for ms in one.crossed.values())


class _Labelled:
    """A run of one hour with these labels."""

    def __init__(self, labels: Truth) -> None:
        self._labels = labels
        self.cell = CELL
        self.draw = _run().draw

    def truth(self) -> Truth:
        return self._labels

    def by_hour(self, rank: int) -> dict[int, Truth]:
        return {0: self._labels}

    def gpu_uuid(self, rank: int) -> str:
        return "GPU"


def test_tallies_add_up_in_any_order() -> None:
    """Seeds come from several processes."""
    one, two = Tally(runs=1, starved=1, findings=Counter(high=2)), Tally(runs=2, confusion=Counter({"a>b": 3}))
    assert summed([one, two]) == summed([two, one])
    assert summed([one, two]).findings == {"high": 2}


def test_a_bar_of_which_nothing_was_counted_is_not_kept() -> None:
    """A campaign of one kind of run says nothing of the others."""
    assert not any(held for bar, held in bars(Scores.of([Tally()])).items())


def test_what_is_kept_is_read_back() -> None:
    """The README is made of the file, not of what was in memory."""
    tallies = {key_of(CELL): tally(_booked_as(_run()), 2.6)}
    whole = Campaign(
        {"date": "2026-11-22"},
        "1",
        [{"seed": 1}],
        {"control": True},
        {key: summed([one]) for key, one in tallies.items()},
    )
    assert Campaign.read(whole.text()) == whole
    assert "storage_local" in whole.section()


def test_the_readme_shows_the_kept_numbers() -> None:
    """`make bench-truth` writes both; who edits one by hand is found here."""
    assert Campaign.read().section() in README.read_text()
