"""What is kept of the findings of one period, for one reading: lives as of its end, the last words, mutes that hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analyzer.findings.history import history_tables
from analyzer.findings.history.judgement import Judgement, Mute, muted, word_on
from analyzer.findings.history.life import Life
from analyzer.findings.history.record import Record, record_of
from analyzer.period import Period

if TYPE_CHECKING:
    from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class FindingHistory:
    """Lives and mutes are by finding id; `closed` counts the findings that were closed in the period."""

    lives: Mapping[str, Life] = field(default_factory=dict)
    judgements: Sequence[Judgement] = ()
    mutes: Mapping[str, Mute] = field(default_factory=dict)
    closed: int = 0

    @property
    def record(self) -> Record:
        """How often we were right, so far."""
        return record_of(self.judgements)

    def word(self, finding_id: str, period: Period) -> Judgement | None:
        """Return what was said last of a finding in this period."""
        return word_on(self.judgements, finding_id, period)


def read_case(session: "Session", period: Period, now_us: int) -> FindingHistory:
    """Return what is kept of a period's findings. `now_us` decides which mutes still hold, and nothing else."""
    return FindingHistory(
        history_tables.lives(session, period.end),
        tuple(history_tables.judgements(session)),
        muted(history_tables.mutes(session), now_us),
        history_tables.closed_within(session, period),
    )
