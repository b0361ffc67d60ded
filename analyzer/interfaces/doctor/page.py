"""The examination as a page of text, and as JSON: from a store that was opened here, or as a server answered it."""

import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from analyzer.interfaces.doctor.examination import Examination
from analyzer.interfaces.doctor.invariants import as_json
from analyzer.interfaces.doctor.words import minute_words

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
            yield from _wrapped(line["what"], f"  {_LABELS[line['answer']]:<4} ")
            if line["remedy"]:
                yield from _wrapped(line["remedy"], " " * _INDENT + "-> ", " " * (_INDENT + 3))
    yield ""
    yield "all is as it must be" if not bad else f"{bad} {'thing needs' if bad == 1 else 'things need'} mending"


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
