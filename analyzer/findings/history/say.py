"""Say something of a finding: the command line and the API do it here, and so keep and refuse the same."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analyzer.findings.finding import Finding
from analyzer.findings.history.history_tables import Statement, add_judgement, add_mute
from analyzer.findings.history.judgement import Claim, Judgement, Mute, mute_until, reason_of, verdict_of
from analyzer.ids import by_id
from analyzer.period import Period

if TYPE_CHECKING:
    from collector.store.session import Session


def keep_judgement(
    session: "Session", found: Sequence[Finding], period: Period, finding_id: str, verdict: str, said: Statement
) -> Judgement:
    """Keep one judgement of a finding of this period, with what the finding claims now.

    `found` are the findings that who judges may see.

    Raises:
        ConfigError: the verdict is none, or no reason is given.
        LedgerError: the period has no such finding.
    """
    kind, checked = verdict_of(verdict), _with_reason(said)
    finding = _by_id(found, finding_id, period)
    rules = session.rows(
        "SELECT rules_version FROM ledger_hours WHERE hour >= ? AND hour < ? ORDER BY hour DESC LIMIT 1",
        [finding.first_at, finding.last_at],
    )
    claim = Claim(
        finding.id,
        finding.subject,
        finding.team,
        finding.state,
        finding.cause,
        finding.confidence,
        finding.milliseconds,
        finding.at_stake_micros,
        rules[0][0] if rules else "",
        finding.rule_version,
    )
    return add_judgement(session, claim, period, kind, checked)


def keep_mute(
    session: "Session",
    found: Sequence[Finding],
    period: Period,
    finding_id: str,
    until: str,
    timezone: str,
    said: Statement,
) -> Mute:
    """Keep that a finding is not to be listed until a date; its time stays in every sum.

    Raises:
        ConfigError: the date is none, has passed, or is too far.
        LedgerError: the period has no such finding.
    """
    moment = mute_until(until, timezone, said.recorded_at)
    finding = _by_id(found, finding_id, period)
    return add_mute(session, finding.id, finding.team, moment, _with_reason(said))


def _with_reason(said: Statement) -> Statement:
    return Statement(reason_of(said.because), said.who, said.recorded_at)


def _by_id(found: Sequence[Finding], finding_id: str, period: Period) -> Finding:
    absent = f"{period.label} has no finding {finding_id!r}: gpuledger findings lists them; --since names another"
    return by_id(found, finding_id, absent)
