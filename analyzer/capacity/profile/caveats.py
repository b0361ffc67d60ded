"""What whoever reads a profile must know beside its figures: what was not measured, tried, priced or settled."""

from collections.abc import Iterator, Sequence

from analyzer.capacity.profile.facts import Alternative, Memory, UnitCost
from analyzer.capacity.profile.scale import Scaled
from analyzer.capacity.profile.work import Work
from analyzer.findings.rule_words import rule_words
from analyzer.ledger.coverage import Hours, not_judged
from analyzer.text.words import counted, plain
from collector.store.session import Session

_RULES_SHOWN = 6
_SETTLED = ("closed", "final")


def caveats(
    session: Session,
    work: Work,
    known: Hours | None,
    scaled: Scaled,
    alternatives: Sequence[Alternative],
    memory: Sequence[Memory],
    units: Sequence[UnitCost],
) -> tuple[str, ...]:
    """Return them as sentences, what touches the most first. `known` is None of a recording, which is whole."""
    said = [
        *([] if known is None else _of_hours(work, known)),
        *_of_price(work),
        *_of_scaling(work, scaled),
        *([] if known is None else _of_alternatives(alternatives)),
        *(["The memory of the GPUs was not read."] if not memory else []),
        *([f"{units[0].unit.capitalize()} are the runs' own word."] if units else []),
        *_of_rules(session, work),
    ]
    return tuple(dict.fromkeys(said))


def _of_hours(work: Work, known: Hours) -> Iterator[str]:
    if known.known < known.expected:
        yield f"The ledger has {known.known} of the period's {counted(known.expected, 'hour')}."
    if known.status not in _SETTLED:
        yield f"Hours of the period are still {known.status or 'unknown'}: figures may change by late telemetry."
    running = [run for run in work.runs if run.ended_at is None]
    if running:
        verb = "runs" if len(running) == 1 else "run"
        yield f"{counted(len(running), 'run')} of {len(work.runs)} still {verb}: what comes later is not in it."


def _of_price(work: Work) -> Iterator[str]:
    if any(run.micros is None for run in work.runs):
        yield "A part of the GPU time has no price, so no cost is told of it; name its price in the price file."


def _of_scaling(work: Work, scaled: Scaled) -> Iterator[str]:
    if scaled.because is not None:
        said = "The table of sizes is not whole" if scaled.table else "Scaling is not known"
        yield f"{said}: {plain(scaled.because)}."
    if scaled.table and len(work.names) > 1:
        yield f"The table of sizes is of {plain(scaled.of or 'the largest run')} alone."


def _of_alternatives(alternatives: Sequence[Alternative]) -> Iterator[str]:
    for one in alternatives:
        if not one.tried and one.what == "another kind of GPU":
            yield f"{plain(one.sku)} was not tried with this work."
    if not alternatives:  # of work on several GPUs, or on the smallest kind
        yield "The fleet has no cheaper or smaller kind of GPU."


def _of_rules(session: Session, work: Work) -> Iterator[str]:
    found: dict[tuple[str, str], int] = {}
    for run in work.runs:
        for one in not_judged(session, work.period, run.run_id):
            found[one.rule, one.missing] = found.get((one.rule, one.missing), 0) + 1
    most = sorted(found, key=lambda key: (-found[key], key))
    for rule, missing in most[:_RULES_SHOWN]:
        yield f"Not judged in {counted(found[rule, missing], 'run')}: {plain(rule_words(rule))} ({plain(missing)})."
    if len(most) > _RULES_SHOWN:
        yield f"{counted(len(most) - _RULES_SHOWN, 'other rule')} lacked a signal too."
