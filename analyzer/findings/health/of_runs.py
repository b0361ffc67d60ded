"""What notices of runs share: who a run is, runs of one name together, and one notice of those of one name."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from analyzer.findings.health.notice import Notice, Words, notice_id
from analyzer.text.wording import called


@dataclass(frozen=True, slots=True)
class OfRun:
    """The beginning of every row about one run."""

    run_id: str
    name: str | None
    team: str | None

    @property
    def subject(self) -> str:
        """What people call it."""
        return self.name or self.run_id


R = TypeVar("R", bound=OfRun)


def by_name(rows: Iterable[R]) -> Iterator[list[R]]:
    """Yield the rows of each name together; they come in order of name."""
    for _, parts in groupby(rows, lambda row: row.subject):
        yield list(parts)


def notice_of(rule: str, runs: Sequence[OfRun], words: Words, kind: str = "") -> Notice:
    """Return a notice of runs of one name, which their owner can act on; `kind` tells several of one name apart."""
    first = runs[0]
    return Notice(
        notice_id(rule, f"{first.subject} {kind}" if kind else first.subject),
        rule,
        called([first.subject] * len(runs)),
        words.sentence,
        "run",
        words.confidence,
        run_ids=tuple(run.run_id for run in runs),
        team=first.team,
        evidence=tuple(words.evidence),
        wrong_if=words.wrong_if,
    )
