"""From the allocations to the dollars: a planted saving is seen to be applied, and found."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from analyzer.interfaces.questions.registry import answer
from analyzer.interfaces.text.savings_text import came_words
from analyzer.period import Calendar
from analyzer.recommendations.lifecycle.applied import look_for_applied
from analyzer.recommendations.lifecycle.lifecycle_tables import Word, add_predictions, add_word, lifecycle_statuses
from analyzer.recommendations.lifecycle.realised import Realised, all_realised, case_of
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from collector.store.session import Session
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet, priced
from tests.analyzer.recommendations.lifecycle_recurring import (
    END,
    NEXT_MONDAY,
    VARYING,
    analysed,
    one_run,
    prediction,
    read,
    recurring,
)

WEEK_AFTER = Calendar().week_of(NEXT_MONDAY)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fleet, Settings]:
    """The recurring job, with its ledger and a price."""
    settings = priced(tmp_path_factory.mktemp("priced"), H100_80GB=2.6)
    return analysed(recurring(), settings), settings


@pytest.fixture
def session(site: tuple[Fleet, Settings]) -> Iterator[Session]:
    """A session on it whose changes are undone."""
    with site[0].store.session() as session:
        session.execute("BEGIN")
        yield session
        session.execute("ROLLBACK")


def test_the_first_run_with_more_cores_says_when_it_was_applied(session: Session) -> None:
    """Nobody has to say what the allocations show; what was seen stays when the samples are gone."""
    add_predictions(session, [prediction()])
    assert look_for_applied(session, END, END) == 1
    (one,) = lifecycle_statuses(session)
    assert (one.stage, one.applied_at) == ("applied", NEXT_MONDAY + HOUR)
    assert one.by == "16 cores per GPU, not 8"
    assert look_for_applied(session, END, END) == 0


def test_a_rejected_change_is_not_looked_for(session: Session) -> None:
    """A scheduler that happens to give more cores applied nothing."""
    add_predictions(session, [prediction()])
    add_word(session, Word("w", "r-2hd4a", prediction().id, "rejected", "no", None, "cli:ada", END, None))
    assert look_for_applied(session, END, END) == 0
    assert lifecycle_statuses(session)[0].stage == "rejected"


def test_gpus_that_were_given_back_are_seen(session: Session) -> None:
    """A run that held on at the proposal and has ended since; there is no next run to look at."""
    add_predictions(session, [prediction("release", run_ids=("slurm/alpha/99",), subject="other")])
    assert look_for_applied(session, END, END) == 0
    assert look_for_applied(session, END + HOUR, END) == 1
    assert (lifecycle_statuses(session)[0].applied_at, lifecycle_statuses(session)[0].by) == (END, "it released GPUs")


def test_reads_that_moved_to_the_host_are_seen() -> None:
    """From a network mount to the host's own disk."""
    fleet = Fleet()
    for number, kind in enumerate(("nfs", "nfs", "block", "block")):
        begin = MONDAY + (number + 5) * DAY
        one_run(fleet, f"slurm/alpha/{number}", begin, 1e6, 8.0)
        read(fleet, begin, kind)
    fleet.own("n1", ["G1"])
    analysed(fleet)
    with fleet.store.session() as session:
        add_predictions(session, [prediction("local_nvme", run_ids=("slurm/alpha/0",), subject="vit-large")])
        assert look_for_applied(session, END, END) == 1
        (one,) = lifecycle_statuses(session)
    assert one.applied_at == MONDAY + 7 * DAY
    assert one.by == "0% of its reads come over the network, not 100%"


def test_a_host_that_was_drained_is_seen(session: Session) -> None:
    """One that was drained before the proposal is no news."""
    row = "INSERT INTO node_states (node, started_at, ended_at, state, batch) VALUES (?, ?, ?, 'drained', 1)"
    session.execute(row, ["n1", MONDAY, END])
    session.execute(row, ["n2", NEXT_MONDAY + DAY, END])
    add_predictions(session, [prediction("cool", nodes=("n1", "n2"), run_ids=(), subject="n2")])
    look_for_applied(session, END, END)
    (one,) = lifecycle_statuses(session)
    assert (one.applied_at, one.by) == (NEXT_MONDAY + DAY, "n2 is out of its scheduler")
    (came,) = all_realised(session, [one])
    assert came.outcome.standing == "not_provable"


def test_a_planted_saving_is_found_and_priced(session: Session) -> None:
    """A quarter more tokens an hour is a fifth less for each: 12 of 60 GPU-hours a week, $31."""
    add_predictions(session, [prediction()])
    look_for_applied(session, END, END)
    (one,) = all_realised(session, lifecycle_statuses(session))
    assert (one.outcome.standing, one.outcome.unit) == ("verified", "tokens")
    assert (one.outcome.before, one.outcome.after) == (6, 6)
    assert one.milliseconds is not None
    assert one.micros is not None
    assert one.milliseconds.likely / 3_600_000 == pytest.approx(12, abs=0.01)
    assert one.micros.likely / 1e6 == pytest.approx(31.2, abs=0.02)
    assert one.micros.low <= one.micros.likely <= one.micros.high
    case = case_of(one)
    assert case is not None
    assert case.lost == 30 * 2_600_000


@pytest.fixture(scope="module")
def neighbours() -> Fleet:
    """Seven names with four runs each over two weeks: then all do a tenth less, and the first a quarter more."""
    fleet = Fleet()
    for number in range(7):
        node, gpu = f"m{number}", f"M{number}"
        fleet.own(node, [gpu])
        for place, day in enumerate((0, 3, 7, 10)):
            begin, is_after = MONDAY + day * DAY + HOUR, place > 1
            run = f"slurm/alpha/{number}{place}"
            fleet.hold(run, node, [gpu], begin, begin + 2 * HOUR, name=f"name{number}", exit_status="completed")
            fleet.sample(node, gpu, begin, begin + 2 * HOUR, every=10 * MINUTE)
            rate = (
                (1.25 if is_after and not number else 1.0) * (0.9 if is_after else 1.0) * VARYING[(number + place) % 6]
            )
            said = {"node": node, "run_id": run, "started_at": begin, "ended_at": begin + 2 * HOUR}
            fleet.add("progress", [said | {"steps": int(100_000 * rate)}])
    return analysed(fleet)


def test_few_runs_are_held_against_others_of_their_kind(neighbours: Fleet) -> None:
    """All became dearer together; what was changed less so. Those that were changed too are no measure."""
    with neighbours.store.session() as session:
        session.execute("BEGIN")
        runs = ("slurm/alpha/00", "slurm/alpha/01")
        one = prediction("loader_settings", run_ids=runs, subject="name0 (2)")
        add_predictions(session, [one])
        add_word(session, Word("w", one.recommendation_id, one.id, "accepted", None, NEXT_MONDAY, "me", END, None))
        (came,) = all_realised(session, lifecycle_statuses(session))
        assert came.outcome.effect is not None
        assert (came.outcome.standing, came.outcome.effect.method, came.outcome.unit) == (
            "verified",
            "difference",
            "steps",
        )
        assert (came.outcome.before, came.outcome.after, came.outcome.others) == (2, 2, 6)
        assert came.outcome.effect.saved == pytest.approx(0.2, abs=0.04)
        other = prediction("batch", recommendation_id="r-other", run_ids=("slurm/alpha/10",), subject="name1")
        third = prediction("batch", recommendation_id="r-third", run_ids=("slurm/alpha/20",), subject="name2")
        add_predictions(session, [other, third])
        for word, of in (("x", other), ("y", third)):
            add_word(session, Word(word, of.recommendation_id, of.id, "accepted", None, NEXT_MONDAY, "me", END, None))
        came = next(
            each for each in all_realised(session, lifecycle_statuses(session)) if each.id == one.recommendation_id
        )
        assert (came.outcome.standing, came.outcome.others) == ("not_provable", 4)
        session.execute("ROLLBACK")


def test_what_changed_nothing_saved_nothing() -> None:
    """The interval holds nothing, and it says how many runs it would take."""
    fleet = analysed(recurring(tokens_after=1.0))
    with fleet.store.session() as session:
        add_predictions(session, [prediction(saves_micros=None)])
        look_for_applied(session, END, END)
        (one,) = all_realised(session, lifecycle_statuses(session))
    assert one.outcome.standing == "no_effect"
    assert one.milliseconds is not None
    assert one.milliseconds.low < 0 == one.milliseconds.likely < one.milliseconds.high
    assert one.outcome.needs == 1  # at a spread of 2% and a fifth expected, six runs each are plenty
    assert one.micros is not None  # a share of what they held at the price of then
    fleet.store.close()


def test_the_savings_are_told(
    site: tuple[Fleet, Settings], session: Session, golden: Callable[[str, str], None]
) -> None:
    """As a person reads them; every figure can be checked by hand."""
    add_predictions(
        session,
        [
            prediction(),
            prediction(recommendation_id="r-h5w1b", kind="release", subject="debug-asr", title="release 8 GPUs"),
            prediction(recommendation_id="r-6bq9c", kind="share_mig", subject="notebooks", title="share 2 GPUs"),
            prediction(recommendation_id="r-w2k5d", kind="pack", subject="other", title="two trials on one GPU"),
        ],
    )
    add_word(session, Word("1", "r-h5w1b", "p", "accepted", None, None, "cli:ada", END, None))
    add_word(session, Word("2", "r-6bq9c", "p", "rejected", "they need whole GPUs", None, "cli:ada", END, None))
    look_for_applied(session, END, END)
    reader = Reader(session, site[1])
    golden("report/savings.txt", answer(reader, Request("savings", ascii=True)))
    assert '"schema": "gpuledger/savings"' in answer(reader, Request("savings", format="json"))


def test_the_week_says_what_was_checked_until_then(site: tuple[Fleet, Settings], session: Session) -> None:
    """A report of an earlier week does not know what was done after it."""
    add_predictions(session, [prediction()])
    look_for_applied(session, END, END)
    reader = Reader(session, site[1])
    after, before = (answer(reader, Request("week", since=label)) for label in (WEEK_AFTER.label, "2025-W46"))
    assert "CHECKED AFTERWARDS" in after
    assert "r-2hd4a vit-large (6): twice the loader workers per rank, done 17 Nov" in after
    assert "CHECKED" not in before
    page, earlier = (
        answer(reader, Request("week", since=label, format="html")) for label in (WEEK_AFTER.label, "2025-W46")
    )
    assert "<caption>Checked afterwards (saved per week; 95% interval in brackets)</caption>" in page
    assert "<td>vit-large (6): twice the loader workers per rank, done 17 Nov</td>" in page
    assert "12 runs compared, by cost per token" in page
    assert "Checked afterwards" not in earlier


def test_a_name_before_and_after_a_date(
    site: tuple[Fleet, Settings], session: Session, golden: Callable[[str, str], None]
) -> None:
    """States side by side that add up, a cost for each unit, and an interval where enough runs are compared."""
    reader = Reader(session, site[1])
    golden("report/compare_at.txt", answer(reader, Request("compare", "vit-large", at="2025-11-17", ascii=True)))
    golden("report/compare_runs.txt", answer(reader, Request("compare", "100", other="111", ascii=True)))


def test_a_book_that_is_empty_says_where_to_begin(session: Session, site: tuple[Fleet, Settings]) -> None:
    """Nothing is made up of nothing."""
    text = answer(Reader(session, site[1]), Request("savings"))
    assert "0 applied" in text
    assert "gpuledger recommendations accept ID" in text


def test_what_ran_through_the_change_is_not_counted_on_both_sides(session: Session) -> None:
    """A moment in the middle of a run leaves it out where others are enough."""
    add_predictions(session, [prediction()])
    moment = MONDAY + 2 * DAY + 5 * HOUR
    add_word(session, Word("w", "r-2hd4a", prediction().id, "accepted", None, moment, "cli:ada", END, None))
    (one,) = lifecycle_statuses(session)
    (came,) = all_realised(session, [replace(one)])
    assert (came.outcome.before, came.outcome.after) == (2, 9)


@pytest.fixture(scope="module")
def imported() -> Fleet:
    """Three sites of job history: thirty runs of ten hours, then thirty of half as many, and nothing was changed.

    Runs say nothing of their work, or their steps, or their steps on twice the GPUs.
    """
    fleet = Fleet()
    with fleet.together():
        _history(fleet, "silent")
        _history(fleet, "told", steps=1000)
        _history(fleet, "wider", steps=1000, gpus_after=2)
    return analysed(fleet)


def _history(fleet: Fleet, name: str, *, steps: int | None = None, gpus_after: int = 1) -> None:
    gpus = [[f"{name}-{row}{place}" for row in range(2)] for place in range(30)]
    fleet.own(name, [gpu for both in gpus for gpu in both])
    for number in range(60):
        is_after = number >= 30
        begin = (NEXT_MONDAY if is_after else MONDAY) + (number % 30) * HOUR
        hours = (5 if is_after else 10) + number % 2
        run, held = f"slurm/alpha/{name}{number}", gpus[number % 30][: gpus_after if is_after else 1]
        fleet.hold(run, name, held, begin, begin + hours * HOUR, name=name, exit_status="completed")
        if steps is not None:
            said = {"node": name, "run_id": run, "started_at": begin, "ended_at": begin + hours * HOUR}
            fleet.add("progress", [said | {"steps": steps * hours}])


def came_of(fleet: Fleet, name: str) -> Realised:
    """Return what came of a change that somebody says was made to these runs between the two weeks."""
    runs = tuple(f"slurm/alpha/{name}{each}" for each in range(30))
    with fleet.store.session() as session:
        session.execute("BEGIN")
        one = prediction("loader_settings", run_ids=runs, subject=f"{name} (30)")
        add_predictions(session, [one])
        add_word(session, Word("w", one.recommendation_id, one.id, "accepted", None, NEXT_MONDAY, "me", END, None))
        (came,) = all_realised(session, lifecycle_statuses(session))
        session.execute("ROLLBACK")
    return came


def test_shorter_runs_are_no_saving_while_nobody_knows_what_they_did(imported: Fleet) -> None:
    """Thirty runs of half the length may have done half the work: no amount, and no case to learn from."""
    came = came_of(imported, "silent")
    assert came.outcome.standing == "not_provable"
    assert (came.outcome.before, came.outcome.after) == (30, 30)
    assert "steps, samples or tokens" in came.outcome.why
    assert "docs/progress.md" in came.outcome.why
    assert (came.milliseconds, came.micros, case_of(came)) == (None, None, None)
    told = came_words(came, "USD")
    assert told.startswith("not provable: nothing shows that the runs did equal work")


def test_half_the_work_in_half_the_time_is_no_saving(imported: Fleet) -> None:
    """Where the runs say their steps, those decide, and not how long they took."""
    came = came_of(imported, "told")
    assert came.outcome.unit == "steps"
    assert came.outcome.effect is not None
    assert came.outcome.standing == "no_effect"


def test_steps_on_other_gpus_are_not_the_same_steps(imported: Fleet) -> None:
    """A step of two GPUs is twice the batch, or half of it each: only samples or tokens say."""
    came = came_of(imported, "wider")
    assert came.outcome.standing == "not_provable"
    assert "a step of 2 GPUs may be a different amount of work than one of 1" in came.outcome.why
