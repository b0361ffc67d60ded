"""Open recommendations are told as they were written down, for these runs and this period, and no others."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.wire.units import WEEK_US
from analyzer.capacity.profile.facts import OpenAdvice
from analyzer.capacity.profile.work import ProfileRequest
from analyzer.recommendations.lifecycle.lifecycle_tables import Word, add_predictions, add_word
from analyzer.recommendations.lifecycle.prediction import Amount, Prediction, PredictionSpan, Versions
from tests.analyzer.capacity.profile_small_site import profile_of, small_site
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet

HOUR_MS = 3_600_000
HELD = 70 * HOUR_MS  # what all runs of the prediction held in its week: run 1 is a tenth of it


def prediction(identity: str, share: float, *run_ids: str) -> Prediction:
    """Return what was predicted of the week: so much of what its runs held, and a third less or more."""
    saves = {"p20": round(HELD * share * 2 / 3), "p50": round(HELD * share), "p80": round(HELD * share * 4 / 3)}
    return Prediction(
        identity, MONDAY + 7 * DAY, PredictionSpan(MONDAY, MONDAY + WEEK_US, "2025-W46"), "more_cpu", "sft", "nlp",
        f"change {identity}", ("f-1",), run_ids, (), saves, None, Amount(None, None), Amount(HELD, None),
        Versions("s", "r", None),
    )  # fmt: skip


@pytest.fixture
def advice(tmp_path: Path) -> dict[str, OpenAdvice]:
    """Return the advice of run 1's profile where five were predicted, of which one was rejected."""
    fleet: Fleet = small_site(tmp_path)
    made = [
        prediction("r-half", 0.5, "slurm/alpha/1", "slurm/alpha/9"),
        prediction("r-less", 0.1, "slurm/alpha/1"),
        prediction("r-most", 2.0, "slurm/alpha/1"),
        prediction("r-nope", 0.5, "slurm/alpha/1"),
        prediction("r-other", 0.5, "slurm/alpha/3"),
    ]
    with fleet.store.session() as session:
        add_predictions(session, made)
        word = Word("w-1", "r-nope", made[3].id, "rejected", "too dear", None, "cli:me", MONDAY + 8 * DAY, "nlp")
        add_word(session, word)
    return {one.id: one for one in profile_of(fleet, tmp_path, ProfileRequest(runs=("1",))).advice}


def test_rejected_ones_and_others_runs_are_left_out(advice: dict[str, OpenAdvice]) -> None:
    """A gate asks what the team has not done yet, and not what it said no to."""
    assert list(advice) == ["r-most", "r-half", "r-less"], "those that free most come first"


def test_what_is_freed_is_the_share_of_these_runs(advice: dict[str, OpenAdvice]) -> None:
    """Half of what its runs held: of run 1 that is 3.5 of its 7 GPU-hours, and twice the work on the same GPUs."""
    half = advice["r-half"]
    assert half.frees.p50 == 7 * HOUR_MS // 2
    assert half.speedup_permille.p50 == 2000
    assert half.frees.p20 < half.frees.p50 < half.frees.p80
    assert advice["r-less"].speedup_permille.p50 == 1111
    assert half.run_names == ("sft",)


def test_no_change_frees_the_whole_of_a_run(advice: dict[str, OpenAdvice]) -> None:
    """A prediction of more than there was would promise infinite speed: the work still has to be done."""
    most = advice["r-most"]
    assert most.frees.p80 == 7 * HOUR_MS * 9 // 10
    assert most.speedup_permille.p80 == 10_000


def test_hours_of_no_week_that_was_kept_are_worked_out_now(tmp_path: Path) -> None:
    """The day after the first run there is no whole week: what the run lost is advised on all the same."""
    fleet = small_site(tmp_path)
    with fleet.store.session() as session:
        kept = prediction("r-old", 0.5, "slurm/alpha/1")
        add_predictions(session, [replace(kept, span=PredictionSpan(MONDAY - WEEK_US, MONDAY, "2025-W45"))])
    found = profile_of(fleet, tmp_path, ProfileRequest(runs=("2",))).advice
    assert [one.kind for one in found] == ["right_size"]
    assert "r-old" not in {one.id for one in found}
    assert found[0].frees.p50 > HOUR // 1000
