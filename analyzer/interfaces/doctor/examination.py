"""The whole examination, subject by subject, as lines, as a page and as JSON; what cannot be looked at is said."""

import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from analyzer.interfaces.doctor.access import access
from analyzer.interfaces.doctor.agents import agents
from analyzer.interfaces.doctor.invariants import Check, as_json, examine
from analyzer.interfaces.doctor.jobs import jobs
from analyzer.interfaces.doctor.mail import mail
from analyzer.interfaces.doctor.sight import CheckLine, Section, Sight, minute_words
from analyzer.interfaces.doctor.storage import forecast, storage
from analyzer.text.layout import at_column
from collector.errors import StoreError


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


def examination(sight: Sight, subjects: Iterable[tuple[str, Callable[[Sight], Section]]] = _SUBJECTS) -> Examination:
    """Look at everything once: the whole ledger is read for it.

    Raises:
        StoreError: the ledger cannot be read at all.
    """
    checks = tuple(examine(sight.session, sight.settings))
    sections = (ledger(checks), *looked_at(sight, subjects))
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
    bad = 0
    for section in said["sections"]:
        yield ""
        yield str(section["name"])
        for line in section["lines"]:
            bad += line["answer"] == "bad"
            yield from _wrapped(line["what"], at_column(f"  {_LABELS[line['answer']]}", 7))
            if line["remedy"]:
                yield from _wrapped(line["remedy"], " " * _INDENT + "-> ", " " * (_INDENT + 3))
    yield ""
    yield "all is as it must be" if not bad else f"{bad} {'issue' if bad == 1 else 'issues'}"


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
