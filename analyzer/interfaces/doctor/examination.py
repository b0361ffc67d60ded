"""The whole examination, subject by subject, as lines, as a page and as JSON; what cannot be looked at is said."""

import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from agent.wire.units import DAY_SECONDS, SECOND_US
from analyzer.interfaces.doctor.connections import access, agents, mail
from analyzer.interfaces.doctor.invariants import Check, as_json, examine
from analyzer.interfaces.doctor.sight import CheckLine, Section, Sight, count, length_words, minute_words, some
from analyzer.interfaces.doctor.storage import forecast, storage
from analyzer.text.layout import at_column
from collector.errors import StoreError
from collector.lake.keeper import JobState, states
from collector.store.booking import FIRST, newest
from collector.store.books import days_doubled

_OLD_ANALYSIS_SECONDS = DAY_SECONDS
_LATE_SECONDS = 2 * DAY_SECONDS  # every job is due within a day


def jobs(sight: Sight) -> Section:
    """Return the lines on jobs."""
    return Section("JOBS", (*_analysis(sight), *_upkeep(sight)))


def _analysis(sight: Sight) -> Iterator[CheckLine]:
    if sight.live is not None and sight.live.clock_doubt is not None:
        yield CheckLine("bad", sight.live.clock_doubt, "see whether its time service runs")
    if sight.live is not None and sight.live.analysis_error is not None:
        yield CheckLine("bad", f"the last analysis failed: {sight.live.analysis_error}", "the server's log says more")
    yield from _booking(sight)
    rows = sight.session.rows("SELECT analysed_at FROM analysis")
    if not rows:
        if not sight.session.rows(f"SELECT 1 FROM {sight.receipts} LIMIT 1"):
            yield CheckLine("note", "nothing has arrived that could be analysed")
            return
        remedy = (
            "gpuledger serve does so, or gpuledger admin analyze" if sight.live is None else "the next pass does so"
        )
        yield CheckLine("note", "nothing has been analysed yet", remedy)
        return
    age = max(0.0, (sight.now_us - rows[0][0]) / SECOND_US)
    old = age > _OLD_ANALYSIS_SECONDS
    remedy = "see whether a server runs on this store" if old else ""
    yield CheckLine("note" if old else "ok", f"the ledger was brought up to date {length_words(age)} ago", remedy)


def _booking(sight: Sight) -> Iterator[CheckLine]:
    """Say which of several analyzers books into the lake; a site with one has nothing to hear of it."""
    if sight.live is not None and sight.live.held is not None:
        yield CheckLine("ok", sight.live.held)
    if sight.live is not None and sight.live.books_since is not None:
        yield CheckLine(
            "ok", f"this one books into the lake since {minute_words(sight.live.books_since)} UTC, and no other"
        )
    if sight.store.lake is None:
        return
    at = newest(sight.session)
    if sight.live is None and sight.store.lake.file is None and at.booking != FIRST:
        age = max(0.0, (sight.now_us - at.booked_at) / SECOND_US)
        yield CheckLine("ok", f"{at.holder} booked into the lake last, {length_words(age)} ago")
    if days := days_doubled(sight.session):
        named = some([minute_words(day)[:10] for day in days])
        what = f"the lake's books have hours of {count(len(days), 'day')} twice: {named}"
        yield CheckLine(
            "bad", what, "the next pass of the analyzer that has the ledger in its hot file puts them right"
        )


def _upkeep(sight: Sight) -> Iterator[CheckLine]:
    try:
        known = states(sight.session)
    except StoreError:
        known = {}
    if not known:
        yield CheckLine("note", "no maintenance job has run on this store yet")
        return
    wrong = list(_wrong(sight, known))
    yield from wrong
    if not wrong:
        yield CheckLine("ok", f"{count(len(known), 'maintenance job')} went well")


def _wrong(sight: Sight, known: dict[str, JobState]) -> Iterator[CheckLine]:
    for name, state in sorted(known.items()):
        if state.outcome == "failed":
            yield CheckLine("bad", f"{name} failed: {state.said}", "it is tried again; the server's log says more")
        elif state.succeeded_at and sight.now_us - state.succeeded_at > _LATE_SECONDS * SECOND_US:
            ago = length_words((sight.now_us - state.succeeded_at) / SECOND_US)
            yield CheckLine("bad", f"{name} last went well {ago} ago", "see whether a server runs on this store")


def ledger(checks: Iterable[Check]) -> Section:
    """Return a line for each invariant."""
    return Section("LEDGER", tuple(map(_line, checks)))


def _line(check: Check) -> CheckLine:
    if check.is_right and not check.checked:
        return CheckLine("unseen", f"{check.name}: nothing there yet to hold to it")
    if check.is_right:
        return CheckLine("ok", f"{check.name}: {check.about} ({check.checked:,})")
    what = f"{check.name}: not so that {check.about}; {check.off:,} {check.unit} off in {check.checked:,}"
    return CheckLine("bad", what, "keep the store as it is, back it up, and report this")


_SUBJECTS: tuple[tuple[str, Callable[[Sight], Section]], ...] = (
    ("STORE", storage),
    ("AGENTS", agents),
    ("DISK", forecast),
    ("ACCESS", access),
    ("JOBS", jobs),
    ("MAIL", mail),
)


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything that the page says. `checks` are the ledger's invariants, exact."""

    where: str
    looked_at: int  # microseconds UTC
    checks: tuple[Check, ...]
    sections: tuple[Section, ...]

    @property
    def is_right(self) -> bool:
        """Whether nothing is there that somebody must mend."""
        return all(line.answer != "bad" for section in self.sections for line in section.lines)


def examination(sight: Sight) -> Examination:
    """Look at everything once: the whole ledger is read for it.

    Raises:
        StoreError: the ledger cannot be read at all.
    """
    checks = tuple(examine(sight.session, sight.settings))
    sections = (ledger(checks), *looked_at(sight))
    return Examination(str(sight.store.path or "in memory"), sight.now_us, checks, sections)


def looked_at(
    sight: Sight, subjects: Iterable[tuple[str, Callable[[Sight], Section]]] = _SUBJECTS
) -> tuple[Section, ...]:
    """Return what can be said at once, of everything but the ledger."""
    return tuple(_looked(name, look, sight) for name, look in subjects)


def _looked(name: str, look: Callable[[Sight], Section], sight: Sight) -> Section:
    """Return a section; where the store does not answer, that is what it says."""
    try:
        return look(sight)
    except StoreError as error:
        return Section(name, (CheckLine("bad", f"the store does not answer: {error}", "its log says more"),))


_VERSION = 2
WIDTH = 80
_LABELS = {"ok": "ok", "note": "note", "bad": "BAD", "unseen": "-"}
_INDENT = 7  # columns before what is said


def document(found: Examination) -> dict[str, Any]:
    """Return the examination as JSON's types; `checks` and their `right` are as in version 1."""
    return {
        "version": _VERSION,
        "store": found.where,
        "looked_at": found.looked_at,
        "right": found.is_right,
        "checks": as_json(list(found.checks))["checks"],
        "sections": [asdict(section) for section in found.sections],
    }


def page(said: dict[str, Any]) -> str:
    """Return a document of ours as text, at most 80 columns wide where words allow it."""
    return "\n".join(_lines(said))


def _lines(said: dict[str, Any]) -> Iterator[str]:
    yield from _wrapped(f"store {said['store']}, {minute_words(said['looked_at'])} UTC")
    answers = [line["answer"] for section in said["sections"] for line in section["lines"]]
    bad, unseen = answers.count("bad"), answers.count("unseen")
    for section in said["sections"]:
        yield ""
        yield str(section["name"])
        for line in section["lines"]:
            yield from _wrapped(line["what"], at_column(f"  {_LABELS[line['answer']]}", 7))
            if line["remedy"]:
                yield from _wrapped(line["remedy"], " " * _INDENT + "-> ", " " * (_INDENT + 3))
    yield ""
    looked = f"; {count(unseen, 'check')} could not be made" if unseen and not bad else ""
    yield "all is as it must be" if not (bad or unseen) else f"{count(bad, 'issue') if bad else 'no issues'}{looked}"


def _wrapped(words: str, first: str = "", later: str | None = None) -> Iterator[str]:
    indent = " " * len(first) if later is None else later
    yield from textwrap.wrap(
        words,
        WIDTH,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
