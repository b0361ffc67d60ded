"""Which stage a run looks like by what it did, where it abstains, and who wins where names and doings disagree."""

from dataclasses import replace

import pytest

from agent.wire.units import HOUR_MS
from analyzer.ledger.causes.stages import UNKNOWN, Stage, header, stage
from analyzer.ledger.stage_telemetry import Doings, looks_like, office_hours

DAY_MS = 24 * HOUR_MS
NAMED_EVAL = Stage("evaluation", "medium", "by its name")

# A day of eight GPUs on one host that work well and show no sign of any stage.
PLAIN = Doings(
    gpus=8,
    nodes=1,
    lasted_ms=2 * DAY_MS,
    has_completed=True,
    is_over=True,
    checkpoints=0,
    days=2,
    measured_ms=8 * 2 * DAY_MS,
    busy_ms=8 * 2 * DAY_MS,
    office_busy_ms=8 * DAY_MS // 2,
    activity_ms=8 * 2 * DAY_MS * 800,
    pauses=0,
    phase_minutes=2_880,
    memory_minutes=0,
    tensor_minutes=2_800,
    turns=0,
    windows=288,
    exchange_windows=0,
)
PRETRAINING = replace(
    PLAIN, gpus=64, nodes=8, lasted_ms=5 * DAY_MS, exchange_windows=280, fabric_windows=270, checkpoints=20
)
SERVING = replace(PLAIN, is_over=False, has_completed=False, memory_minutes=2_700, tensor_minutes=0)
ALIGNMENT = replace(PLAIN, memory_minutes=1_400, tensor_minutes=1_200, turns=400)
PREPARATION = replace(
    PLAIN, busy_ms=0, office_busy_ms=0, activity_ms=0, phase_minutes=0, tensor_minutes=0, windows=0,
    cores_used_ms=900, cores_allotted_ms=1_000, told_ms=1_000, pressure_io_ms=300,
)  # fmt: skip
NOTEBOOK = replace(PLAIN, gpus=1, is_over=False, days=7, busy_ms=1_000, office_busy_ms=950, pauses=40, phase_minutes=0)
LOADED = {"start_read_bytes": 16 * 10**9, "read_bytes": 17 * 10**9}
TUNING = replace(PLAIN, lasted_ms=6 * HOUR_MS, checkpoints=4, **LOADED)  # type: ignore[arg-type]
EVALUATION = replace(PLAIN, gpus=1, lasted_ms=2 * HOUR_MS, windows=12, **LOADED)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("run", "word", "confidence"),
    [
        (PRETRAINING, "pretraining", "medium"),
        (replace(PRETRAINING, checkpoints=0), "pretraining", "low"),
        (SERVING, "serving", "medium"),
        (replace(SERVING, is_over=True), "serving", "low"),
        (ALIGNMENT, "alignment", "medium"),
        (PREPARATION, "data preparation", "medium"),
        (NOTEBOOK, "interactive", "medium"),
        (TUNING, "fine-tuning", "low"),
        (EVALUATION, "evaluation", "low"),
    ],
)
def test_a_run_looks_like_what_it_does(run: Doings, word: str, confidence: str) -> None:
    """The published signatures, each by itself; telemetry alone is never more than medium."""
    found = looks_like(run)
    assert found is not None
    assert (found.word, found.confidence) == (word, confidence)
    assert found.reason.startswith("by what it did: ")


@pytest.mark.parametrize(
    "run",
    [
        PLAIN,
        replace(PRETRAINING, nodes=2),  # two hosts for days may as well fine-tune
        replace(PRETRAINING, lasted_ms=DAY_MS),  # not yet
        replace(PRETRAINING, exchange_windows=100),
        replace(SERVING, checkpoints=3),
        replace(SERVING, fabric_windows=280),
        replace(SERVING, phase_minutes=59, memory_minutes=59),
        replace(ALIGNMENT, turns=11),
        replace(ALIGNMENT, memory_minutes=500),
        replace(PREPARATION, pressure_io_ms=50),
        replace(PREPARATION, cores_used_ms=None),
        replace(PREPARATION, measured_ms=0),  # nobody measured: silence is not idleness
        replace(NOTEBOOK, office_busy_ms=700),
        replace(NOTEBOOK, gpus=2),
        replace(NOTEBOOK, pauses=10),
        replace(TUNING, checkpoints=0),
        replace(TUNING, read_bytes=16 * 24 * 10**9),  # what is read all the time is a data set
        replace(TUNING, start_read_bytes=None),
        replace(EVALUATION, has_completed=False),  # what was cut off would perhaps have gone on for days
        replace(EVALUATION, exchange_windows=1),
        replace(EVALUATION, lasted_ms=5 * HOUR_MS),
    ],
)
def test_where_a_sign_lacks_nothing_is_said(run: Doings) -> None:
    """A stage that is guessed wrongly misleads more than none."""
    assert looks_like(run) is None


def test_names_go_before_doings_and_both_before_nothing() -> None:
    """Whoever names a run knows what it is for; what it does is asked where nobody named it."""
    seen = looks_like(PRETRAINING)
    assert stage(Stage("pretraining", "medium", "by its name"), seen) == Stage("pretraining", "medium", "by its name")
    assert stage(None, seen) == seen
    assert stage(None, None) == UNKNOWN


def test_a_name_that_says_training_leaves_its_kind_to_doings() -> None:
    """Without tensor cores a training looks like a service, and its name knows better; who labels it means the word."""
    named, guess = Stage("training", "medium", "by its name"), looks_like(replace(SERVING, is_over=True))
    assert guess is not None
    assert (guess.word, guess.confidence) == ("serving", "low")
    assert stage(named, guess) == named
    assert stage(named, looks_like(PRETRAINING)) == looks_like(PRETRAINING)
    labelled = Stage("training", "high", "by its label")
    assert stage(labelled, looks_like(PRETRAINING)) == labelled


def test_a_name_that_its_doings_deny_keeps_the_word_and_loses_the_confidence() -> None:
    """Five days on 64 GPUs with gradients are no evaluation; yet nobody but its owner can say what they are."""
    found = stage(NAMED_EVAL, looks_like(PRETRAINING))
    assert (found.word, found.confidence) == ("evaluation", "low")
    assert found.reason == (
        "by its name, against what it did: 8 hosts for 5.0 days, links busy in 97% of its time, 20 checkpoints, "
        "as pretraining does"
    )


@pytest.mark.parametrize(
    ("said", "run"),
    [
        (Stage("fine-tuning", "medium", "by its name"), PRETRAINING),  # finer words of one family
        (NAMED_EVAL, replace(PRETRAINING, checkpoints=0)),  # telemetry itself is unsure
        (Stage("simulation", "high", "by its label"), PRETRAINING),  # nobody knows what their word means
        (Stage("serving", "high", "by its request counter"), PRETRAINING),  # it was seen to serve
    ],
)
def test_what_is_no_contradiction_is_none(said: Stage, run: Doings) -> None:
    """Doubt is said only where the two can not both be true."""
    assert stage(said, looks_like(run)) == said


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (Stage("fine-tuning", "medium", "by its queue"), "fine-tuning (by its queue)"),
        (Stage("serving", "high", "by its request counter"), "serving (by its request counter)"),
        (looks_like(PRETRAINING), "pretraining? (by what it did)"),
        (stage(NAMED_EVAL, looks_like(PRETRAINING)), "evaluation? (by its name, against what it did)"),
        (UNKNOWN, "training?"),
    ],
)
def test_a_head_has_the_stage_and_by_what(found: Stage, shown: str) -> None:
    """Short enough for one line; a guess has a question mark."""
    assert header(found.word, found.confidence, found.reason) == shown


def test_stores_of_before_have_a_stage_and_no_reason() -> None:
    """What an older release wrote is shown as it was."""
    assert header("serving", None, None) == "serving"
    assert header(None, None, None) is None


def test_working_hours_are_the_sites() -> None:
    """Monday 16:00 UTC is Monday 8:00 in Los Angeles, and what comes before is Sunday there; weekends have none."""
    monday_ms = 1_762_732_800_000
    day = (monday_ms, monday_ms + 24 * HOUR_MS)
    hours = [hour_ms // HOUR_MS % 24 for hour_ms in office_hours(*day, "UTC")]
    assert hours == list(range(8, 19))
    assert [at // HOUR_MS % 24 for at in office_hours(*day, "America/Los_Angeles")] == list(range(16, 24))
    assert office_hours(monday_ms - 24 * HOUR_MS, monday_ms, "UTC") == []
