"""Notices as text: where, what, what to do, owner and how sure it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.findings.health.notice import Notice
from analyzer.text.layout import TextLayout
from analyzer.text.words import counted, plain, plain_sentence

_SHOWN = 5
_PLACE, _COLUMN = 15, 18
_TITLE = "WORTH A LOOK (claims no GPU time: what it costs is in the tables)"


@dataclass(frozen=True, slots=True)
class NoticeLine:
    """One notice in words: `place` is a host, a queue or a run; the sentence says what to do."""

    id: str
    place: str
    sentence: str
    actor: str
    confidence: str


def notice_line(notice: Notice) -> NoticeLine:
    """Return a notice in words, without control characters."""
    place = notice.node or notice.subject
    what = notice.sentence if place == notice.subject else f"{notice.subject}: {notice.sentence}"
    return NoticeLine(notice.id, plain(place), plain_sentence(what), notice.actor, notice.confidence)


def notice_lines(notices: Sequence[Notice], layout: TextLayout, *, everything: bool) -> list[str]:
    """Return what is worth a look; what is no more than possible is listed with everything alone."""
    sure = [notice for notice in notices if notice.confidence != "low"]
    shown = notices if everything else sure[:_SHOWN]
    if not shown:
        words = f"{counted(len(notices), 'possible notice')} of low confidence: --all lists them"
        return layout.wrap(words) if notices else []
    lines = ["", *layout.wrap(_TITLE, "", "  ")]
    for notice in shown:
        line = notice_line(notice)
        text = f"{line.sentence} ({line.actor}; {line.confidence} confidence)"
        lines += layout.labelled(layout.cut(line.place, _PLACE), text, _COLUMN)
    if len(notices) > len(shown):
        lines.append(f"  {len(notices) - len(shown)} more: --all lists them")
    return [*lines, ""]
