"""The casebook in the store: lives as they were derived, judgements and mutes as they were said."""

import secrets
from collections import defaultdict
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

from analyzer.findings.history.judgement import Claim, Judgement, Mute, Verdict
from analyzer.findings.history.life import Life, Spell, as_of
from analyzer.findings.history.rule_versions import RuleVersions, rule_versions
from analyzer.period import Period

if TYPE_CHECKING:
    from collector.store.session import Session

_CLAIM = (
    "finding_id", "subject", "team", "state", "cause", "confidence", "milliseconds", "cost_micros", "rules_version",
)  # fmt: skip
_JUDGED = ("period_start", "period_end", "period_label", "verdict", "because", "who", "recorded_at")
_MUTED = ("mute_id", "finding_id", "until", "because", "who", "recorded_at", "team")


@dataclass(frozen=True, slots=True)
class Statement:
    """Who says something, why, and when: microseconds UTC."""

    because: str
    who: str
    recorded_at: int


def lives(session: "Session", moment_us: int) -> dict[str, Life]:
    """Return the lives of all findings as of a moment, by id."""
    return {
        one: life for one, of_one in _spells(session).items() if (life := as_of(of_one, one, moment_us)) is not None
    }


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
    columns, known = ", ".join(("judgement_id", *_CLAIM, *_JUDGED)), rule_versions(session)
    rows = session.rows(f"SELECT {columns} FROM finding_judgements ORDER BY recorded_at, judgement_id")
    return [Judgement(row[0], _claim(row[1 : 1 + len(_CLAIM)], known), *row[1 + len(_CLAIM) :]) for row in rows]


def _claim(values: tuple[Any, ...], known: RuleVersions) -> Claim:
    claim = Claim(*values)
    return replace(claim, rule_version=known.get(claim.rules_version, {}).get(claim.rule))


def mutes(session: "Session") -> list[Mute]:
    """Return all mutes that were ever said, in order; most of them have ended."""
    rows = session.rows(f"SELECT {', '.join(_MUTED)} FROM finding_mutes ORDER BY recorded_at, mute_id")
    return [Mute(*row) for row in rows]


def add_judgement(session: "Session", claim: Claim, period: Period, verdict: Verdict, said: Statement) -> Judgement:
    """Add one word; what was said before stays.

    Raises:
        StoreError: the store refuses.
    """
    judgement = Judgement(
        _id(), claim, period.start, period.end, period.label, verdict, said.because, said.who, said.recorded_at
    )
    values = (
        judgement.judgement_id,
        *(getattr(claim, name) for name in _CLAIM),
        *(getattr(judgement, name) for name in _JUDGED),
    )
    session.load("finding_judgements", ("judgement_id", *_CLAIM, *_JUDGED), [values])
    return judgement


def add_mute(session: "Session", finding_id: str, team: str | None, until: int, said: Statement) -> Mute:
    """Add a mute; one that was said before ends with it.

    Raises:
        StoreError: the store refuses.
    """
    mute = Mute(_id(), finding_id, until, said.because, said.who, said.recorded_at, team)
    session.load("finding_mutes", _MUTED, [astuple(mute)])
    return mute


def _id() -> str:
    return secrets.token_hex(8)


def _spells(session: "Session") -> dict[str, list[Spell]]:
    found: dict[str, list[Spell]] = defaultdict(list)
    for one, *spell in session.rows(
        "SELECT finding_id, opened_at, updated_at, closed_at, hours, milliseconds, cost_micros, confidence "
        "FROM finding_book ORDER BY finding_id, spell"
    ):
        found[one].append(Spell(*spell))
    return found
