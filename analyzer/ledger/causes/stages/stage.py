"""The stage that is reported: a run's names first, what it did second, and a doubt where the two disagree.

A name that says "train" and no more says that a run is no service; which training it is, what it did may tell.

Only the names decide how a run's time is booked (run_facts.py): what a run did is known only after it was booked, and
the same input must give the same ledger however it arrived and wherever passes were cut.
"""

from analyzer.ledger.causes.stages.words import DEFAULT, STAGES, Stage

UNKNOWN = Stage(DEFAULT, "low", "neither its names nor what it did say more")
# Words within one family are finer and coarser ones of the same, and never a contradiction.
_TRAINING = frozenset({DEFAULT, "pretraining", "fine-tuning", "alignment"})
_OWN_WORD = "by the requests that it counts"


def stage(said: Stage | None, seen: Stage | None) -> Stage:
    """Return the stage to report. `said` is by its names, `seen` by what it did; None says nothing."""
    if said is None:
        return seen or UNKNOWN
    if seen is None or not _contradicts(said, seen):
        return seen if seen is not None and _is_finer(seen, said) else said
    looks = seen.reason.removeprefix("by what it did: ")
    return Stage(said.word, "low", f"{said.reason}, against what it did: {looks}, as {seen.word} does")


def header(word: str | None, confidence: str | None, reason: str | None) -> str | None:
    """Return a stage as a report's head has it: "fine-tuning (by its queue)", "pretraining? (by what it did)"."""
    if word is None:
        return None
    shown = f"{word}?" if confidence == "low" or (reason or "").startswith("by what it did") else word
    short = (reason or "").partition(":")[0]
    return f"{shown} ({short})" if short.startswith("by ") else shown


def _is_finer(seen: Stage, said: Stage) -> bool:
    """Say whether telemetry knows which kind of training, where a name says no more than that; a label stands."""
    return said.word == DEFAULT and said.confidence != "high" and seen.word in _TRAINING


def _contradicts(said: Stage, seen: Stage) -> bool:
    """Say whether telemetry of some weight shows another kind of work; a word that is not ours contradicts nothing."""
    if seen.confidence == "low" or said.word not in STAGES or said.reason == _OWN_WORD:
        return False
    return said.word != seen.word and not {said.word, seen.word} <= _TRAINING
