"""Say something of a finding: the command line and the API do it here, and so keep and refuse the same."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire.units import HOUR_US
from analyzer.findings.finding import Finding
from analyzer.findings.judgement import Judgement, Mute, mute_until, reason_of, verdict_of
from analyzer.ids import by_id
from analyzer.period import Period
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Statement:
    """Who says something, why, and when: microseconds UTC. `who` is a key's id, or cli: and the user of the machine."""

    because: str
    who: str
    recorded_at: int


def keep_judgement(
    session: Session, found: Sequence[Finding], period: Period, finding_id: str, verdict: str, said: Statement
) -> Judgement:
    """Keep one judgement of a finding of this period, with what the finding claims now; what was said before stays.

    `found` are the findings that who judges may see.

    Raises:
        ConfigError: the verdict is none, or no reason is given.
        LedgerError: the period has no such finding.
    """
    kind, because = verdict_of(verdict), reason_of(said.because)
    finding = _by_id(found, finding_id, period)
    rules = session.rows(
        "SELECT rules_version FROM ledger_hours WHERE hour > ? AND hour < ? ORDER BY hour DESC LIMIT 1",
        [finding.first_at - HOUR_US, finding.last_at],
    )
    judgement = Judgement(
        secrets.token_hex(8),
        finding.id,
        kind,
        because,
        period.start,
        period.end,
        period.label,
        said.recorded_at,
        finding.confidence,
        finding.milliseconds,
        finding.rule,
        finding.rule_version,
    )
    row = {
        "judgement_id": judgement.judgement_id,
        "finding_id": finding.id,
        "subject": finding.subject,
        "team": finding.team,
        "state": finding.state,
        "cause": finding.cause,
        "confidence": finding.confidence,
        "milliseconds": finding.milliseconds,
        "cost_micros": finding.at_stake_micros,
        "rules_version": rules[0][0] if rules else "",
        "period_start": period.start,
        "period_end": period.end,
        "period_label": period.label,
        "verdict": kind,
        "because": because,
        "who": said.who,
        "recorded_at": said.recorded_at,
    }
    session.load("finding_judgements", tuple(row), [tuple(row.values())])
    return judgement


def keep_mute(
    session: Session,
    found: Sequence[Finding],
    period: Period,
    finding_id: str,
    until: str,
    timezone: str,
    said: Statement,
) -> Mute:
    """Keep that a finding is not to be listed until a date; its time stays in every sum. One said before ends with it.

    Raises:
        ConfigError: the date is none, has passed, or is too far.
        LedgerError: the period has no such finding.
    """
    moment = mute_until(until, timezone, said.recorded_at)
    finding = _by_id(found, finding_id, period)
    mute = Mute(secrets.token_hex(8), finding.id, moment, reason_of(said.because), said.recorded_at)
    row = (mute.mute_id, mute.finding_id, mute.until, mute.because, said.who, mute.recorded_at, finding.team)
    columns = ("mute_id", "finding_id", "until", "because", "who", "recorded_at", "team")
    session.load("finding_mutes", columns, [row])
    return mute


def _by_id(found: Sequence[Finding], finding_id: str, period: Period) -> Finding:
    absent = f"{period.label} has no finding {finding_id!r}: gpuledger findings lists them; --since selects another"
    return by_id(found, finding_id, absent)
