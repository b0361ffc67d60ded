"""What somebody should hear of now, read from the ledger: findings of seven days, notices of one."""

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from analyzer.findings.finding import Finding, finding_sentence
from analyzer.findings.health.notice import Notice
from analyzer.interfaces.alarms.alarm import Alarm, Floor, alarming, is_urgent, urgent_notices
from analyzer.period import ALARMS_PERIOD
from analyzer.text.words import plain, plain_sentence

if TYPE_CHECKING:
    from analyzer.interfaces.alarms.settings import AlarmSettings
    from analyzer.recommendations.recommendation import Recommendation
    from analyzer.reports.reader import Reader

_NOTICES_PERIOD = "1d"


def present(reader: "Reader", settings: "AlarmSettings") -> list[Alarm]:
    """Return the alarms that hold now, the urgent first.

    Raises:
        LedgerError: the ledger is empty.
    """
    period = reader.period(ALARMS_PERIOD)
    found, case = reader.findings(period), reader.case(period)

    def answered(id_: str) -> bool:
        word = case.word(id_, period)
        return id_ in case.mutes or (word is not None and word.verdict in ("wrong", "planned"))

    floor = Floor.of(settings.least, settings.least_gpu_hours)
    findings = alarming(found, answered, floor)
    what = ("advice to tell", period.start, period.end)  # of a ledger that has not changed it is what it was
    advice = _by_finding(reader.once(what, lambda: reader.run_advice(found, period))) if findings else {}
    notices = urgent_notices(reader.looked(reader.period(_NOTICES_PERIOD)).notices)
    alarms = [_of_notice(each, reader) for each in notices]
    alarms += [_of_finding(each, advice.get(each.id), reader) for each in findings]
    return sorted(alarms, key=lambda alarm: not alarm.urgent)


def _by_finding(advice: "list[Recommendation]") -> "dict[str, Recommendation]":
    best: dict[str, Recommendation] = {}
    for one in advice:  # the one that saves most comes first
        for id_ in one.finding_ids:
            best.setdefault(id_, one)
    return best


def _of_finding(finding: Finding, advised: "Recommendation | None", reader: "Reader") -> Alarm:
    site = reader.settings
    return Alarm(
        finding.id,
        f"{finding.state}/{finding.cause}",
        is_urgent(finding),
        finding.team,
        plain(finding.subject),
        plain_sentence(finding_sentence(finding, site.currency, site.timezone)),
        None if advised is None else plain_sentence(f"{advised.title} (gpuledger recommendations show {advised.id})"),
        f"{site.site_url}/findings/{finding.id}" if site.site_url else None,
        finding.first_at,
        finding.at_stake_micros,
    )


def _of_notice(notice: Notice, reader: "Reader") -> Alarm:
    """Return the alarm of a notice, which is of a host, or of a GPU on one: what is silent is looked at on Health."""
    page = f"?{urlencode({'at': 'now', 'node': notice.node})}#node" if notice.gpu_uuid else "health#agents"
    return Alarm(
        notice.id,
        notice.rule,
        True,
        notice.team,
        plain(notice.subject),
        plain_sentence(f"{notice.subject}: {notice.sentence}"),
        None,
        f"{reader.settings.site_url}/{page}" if reader.settings.site_url else None,
        reader.now(),
        None,
    )
