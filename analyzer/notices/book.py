"""Every rule, asked in turn: what it noticed, and what it could not judge."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.notices import checkpoints, hardware, slow_gpus
from analyzer.notices.notice import Notice, Rule, Span
from analyzer.unjudged import Unjudged

if TYPE_CHECKING:
    from collector.store.session import Session

RULES: tuple[Rule, ...] = (hardware.look, checkpoints.look, slow_gpus.look)


@dataclass(frozen=True, slots=True)
class Looked:
    """What all rules said of a period, each in its own order."""

    notices: tuple[Notice, ...]
    unjudged: tuple[Unjudged, ...]


def look(session: "Session", start_us: int, end_us: int, rules: tuple[Rule, ...] = RULES) -> Looked:
    """Return what is to be looked at in [start_us, end_us), microseconds UTC."""
    span = Span(start_us, end_us)
    said = [each for rule in rules for each in rule(session, span)]
    return Looked(
        tuple(each for each in said if isinstance(each, Notice)),
        tuple(each for each in said if isinstance(each, Unjudged)),
    )
