"""What is kept of findings in the store: lives as they were derived, judgements and mutes as they were said."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analyzer.findings.history.judgement import Judgement, Mute, Record, muted, record_of, word_on
from analyzer.findings.history.life import Life, Spell, as_of
from analyzer.ledger.thresholds import Thresholds
from analyzer.period import Period

if TYPE_CHECKING:
    from collector.store.session import Session

RuleVersions = dict[str, dict[str, str]]  # by the version of all rules, then by the name of one


@dataclass(frozen=True, slots=True)
class FindingHistory:
    """What is kept of the findings of one period: lives as of its end, the last words, the mutes that hold.

    Lives and mutes are by finding id; `closed` counts the findings that were closed in the period.
    """

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
        lives(session, period.end), judgements(session), muted(mutes(session), now_us), closed_within(session, period)
    )


def lives(session: "Session", moment_us: int) -> dict[str, Life]:
    """Return the lives of all findings as of a moment, by id."""
    spells: dict[str, list[Spell]] = defaultdict(list)
    for finding_id, *spell in session.rows(
        "SELECT finding_id, opened_at, updated_at, closed_at, hours, milliseconds, cost_micros, confidence "
        "FROM finding_book ORDER BY finding_id, spell"
    ):
        spells[finding_id].append(Spell(*spell))
    known = {finding_id: as_of(own, finding_id, moment_us) for finding_id, own in spells.items()}
    return {finding_id: life for finding_id, life in known.items() if life is not None}


def closed_within(session: "Session", period: Period) -> int:
    """Return how many findings were closed in a period, and not opened again in it; suspicions are not counted."""
    (count,) = session.row(
        "SELECT count(*) FROM finding_book b WHERE closed_at > $start AND closed_at <= $end AND state <> 'unexplained' "
        "AND NOT EXISTS (FROM finding_book n WHERE n.finding_id = b.finding_id AND n.spell = b.spell + 1 "
        "AND n.opened_at < $end)",
        {"start": period.start, "end": period.end},
    )
    return int(count)


def judgements(session: "Session") -> list[Judgement]:
    """Return all that was ever said, in order."""
    versions = rule_versions(session)
    rows = session.rows(
        "SELECT rules_version, judgement_id, finding_id, verdict, because, period_start, period_end, period_label, "
        "recorded_at, confidence, milliseconds, state || '/' || cause "
        "FROM finding_judgements ORDER BY recorded_at, judgement_id"
    )
    return [Judgement(*[*row, versions.get(rules, {}).get(row[-1])]) for rules, *row in rows]


def mutes(session: "Session") -> list[Mute]:
    """Return all mutes that were ever said, in order; most of them have ended."""
    rows = session.rows(
        "SELECT mute_id, finding_id, until, because, recorded_at FROM finding_mutes ORDER BY recorded_at, mute_id"
    )
    return [Mute(*row) for row in rows]


def keep_rule_versions(session: "Session", rules_version: str, limits: Thresholds) -> None:
    """Write down once of what the rules consist by which a pass judges."""
    if not session.rows("SELECT 1 FROM rule_versions WHERE rules_version = ?", [rules_version]):
        row = (rules_version, json.dumps(limits.rule_versions(), sort_keys=True))
        session.load("rule_versions", ("rules_version", "versions"), [row])


def rule_versions(session: "Session") -> RuleVersions:
    """Return by what version of its own rule each was made: of each version of all rules what it consisted of."""
    return {whole: json.loads(versions) for whole, versions in session.rows("FROM rule_versions")}
