"""What an alarm is, and which findings and notices are one. Pure: no clock, no store."""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

from agent.wire.bounded import json_said
from agent.wire.units import HOUR_MS, MICROS
from analyzer.findings.finding import Finding, finding_sentence
from analyzer.findings.health.notice import Notice
from analyzer.period import ALARMS_PERIOD, iso
from analyzer.text.words import money, plain, plain_sentence

if TYPE_CHECKING:
    from analyzer.interfaces.alarms.settings import AlarmSettings
    from analyzer.recommendations.recommendation import Recommendation
    from analyzer.reports.reader import Reader

OPEN_MOST = 1000  # at once; beyond it the dearest count
# What must not wait for a floor or a day's limit: a GPU is gone, a host is dark, a run burns money and moves nothing.
_LOST = ("broken", "gpu_lost")
_URGENT_FINDINGS = (_LOST, ("communicating", "hang"))
_URGENT_NOTICES = ("fleet/ecc/xid", "fleet/silent_agents/silent", "fleet/silent_agents/never_seen")
# Told at once, yet nobody's night: the alert of Prometheus for the same (AgentSilent) is a ticket too.
_NO_PAGE = "fleet/silent_agents/"
_LOST_GPUS = """
SELECT DISTINCT gpu_uuid, node FROM ledger
WHERE state = 'broken' AND cause = 'gpu_lost' AND hour >= $start AND hour < $end
"""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing to hear of. Its id is the finding's or the notice's, and so the same as long as it lasts."""

    id: str
    rule: str
    urgent: bool
    team: str | None
    subject: str
    sentence: str
    action: str | None  # what to do about it: a recommendation, or what the notice asks for
    link: str | None  # its page
    since: int  # microseconds UTC
    at_stake_micros: int | None
    gpu_uuid: str | None = None  # what the alerts of Prometheus call it by, where it is one thing:
    run_id: str | None = None
    agent: str | None = None

    @property
    def severity(self) -> str:
        """Return whom it is for, in the words of our rules and routes: page, or ticket."""
        return "page" if self.urgent and not self.rule.startswith(_NO_PAGE) else "ticket"


@dataclass(frozen=True, slots=True)
class Floor:
    """From how much on a finding is told: money, or GPU time where no price is known."""

    micros: int
    milliseconds: int

    @classmethod
    def of(cls, least: int, least_gpu_hours: int) -> "Floor":
        """Return the floor of whole units of a currency, and of GPU-hours."""
        return cls(least * MICROS, least_gpu_hours * HOUR_MS)


def alarming(found: Iterable[Finding], quiet: Callable[[str], bool], floor: Floor) -> list[Finding]:
    """Return the findings to tell of, the urgent and the dearest first; `quiet` says which somebody has answered."""
    chosen = [
        each
        for each in found
        if each.still_open and not each.suspicion and not quiet(each.id) and (_is_urgent(each) or _weighs(each, floor))
    ]
    return sorted(chosen, key=lambda each: (not _is_urgent(each), -(each.at_stake_micros or 0), -each.milliseconds))[
        :OPEN_MOST
    ]


def _is_urgent(finding: Finding) -> bool:
    """Return whether it is told whatever it costs."""
    return (finding.state, finding.cause) in _URGENT_FINDINGS


def _weighs(finding: Finding, floor: Floor) -> bool:
    """Whether it is sure, and dear enough: a guess that wakes somebody is the last that he reads."""
    if finding.confidence != "high":
        return False
    if finding.at_stake_micros is None:
        return finding.milliseconds >= floor.milliseconds
    return finding.at_stake_micros >= floor.micros


def urgent_notices(noticed: Iterable[Notice]) -> list[Notice]:
    """Return the notices that are told."""
    return [each for each in noticed if each.rule in _URGENT_NOTICES and each.confidence == "high"][:OPEN_MOST]


@dataclass(frozen=True, slots=True)
class Turn:
    """What is new since the last look: to be remembered, to be said, and what is over."""

    opened: tuple[Alarm, ...]
    said: tuple[Alarm, ...]
    ended: tuple[str, ...]


def turn(now: Sequence[Alarm], known: Mapping[str, bool], said_today: Callable[[str | None], int], a_day: int) -> Turn:
    """Return what changes: each is said once, of a team at most `a_day` a day, in their order; the urgent always.

    `known` are the ids that lasted at the last look, and whether each was said: some were held back by their team's
    limit. `said_today` counts what was said of a team today, the urgent ones aside.
    """
    left: dict[str | None, int] = {}
    said = []
    for alarm in now:
        if known.get(alarm.id):
            continue
        if not alarm.urgent:
            room = left.setdefault(alarm.team, a_day - said_today(alarm.team))
            if room <= 0:
                continue
            left[alarm.team] = room - 1
        said.append(alarm)
    present = {alarm.id for alarm in now}
    return Turn(
        tuple(alarm for alarm in now if alarm.id not in known),
        tuple(said),
        tuple(sorted(known.keys() - present)),
    )


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
    gone = dict(reader.session.rows(_LOST_GPUS, {"start": period.start, "end": period.end}))
    alarms = [_of_finding(each, advice.get(each.id), reader, _gone_of(each, gone)) for each in findings]
    told = {gpu for each in findings for gpu in _gone_of(each, gone)}
    alarms += [_of_notice(each, reader) for each in notices if each.gpu_uuid not in told]
    return sorted(alarms, key=lambda alarm: not alarm.urgent)


def _gone_of(finding: Finding, gone: Mapping[str, str]) -> list[str]:
    """Return which GPUs, by UUID with their hosts, a finding tells to be lost: their Xid is the same event."""
    is_of_lost = (finding.state, finding.cause) == _LOST
    return [gpu for gpu, node in gone.items() if is_of_lost and node in finding.hosts]


def _by_finding(advice: "list[Recommendation]") -> "dict[str, Recommendation]":
    best: dict[str, Recommendation] = {}
    for one in advice:  # the one that saves most comes first
        for id_ in one.finding_ids:
            best.setdefault(id_, one)
    return best


def _of_finding(
    finding: Finding, advised: "Recommendation | None", reader: "Reader", gone: Sequence[str] = ()
) -> Alarm:
    site = reader.settings
    return Alarm(
        finding.id,
        f"{finding.state}/{finding.cause}",
        _is_urgent(finding),
        finding.team,
        plain(finding.subject),
        plain_sentence(finding_sentence(finding, site.currency, site.timezone)),
        None if advised is None else plain_sentence(f"{advised.title} (gpuledger recommendations show {advised.id})"),
        f"{site.site_url}/findings/{finding.id}" if site.site_url else None,
        finding.first_at,
        finding.at_stake_micros,
        gpu_uuid=gone[0] if len(gone) == 1 else None,
        run_id=finding.run_ids[0] if len(finding.run_ids) == 1 else None,
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
        gpu_uuid=notice.gpu_uuid,
        agent=None if notice.gpu_uuid else notice.node,
    )


_VERSION = 1
Event = Literal["opened", "ended", "test"]
SIGNATURE = "Gpuledger-Signature"  # t=<Unix seconds>,v1=<hex>: over "<t>.<body>", so that an old body cannot come again


def alertmanager_body(
    lasting: Iterable[Alarm], ended: Iterable[tuple[Alarm, int]], until: int, cluster: str, currency: str
) -> bytes:
    """Return alarms as Alertmanager takes them: those that last end by themselves at `until`, unless told again."""
    alerts = [_alert(alarm, until, cluster, currency) for alarm in lasting]
    alerts += [_alert(alarm, end, cluster, currency) for alarm, end in ended]
    return json.dumps(alerts).encode()


def _alert(alarm: Alarm, ends_at: int, cluster: str, currency: str) -> dict[str, Any]:
    # What tells one alert from another never changes while it lasts; figures, which do, are annotations.
    labels = {
        "alertname": "GpuledgerUrgent" if alarm.urgent else "GpuledgerFinding",
        "severity": alarm.severity,
        "cluster": cluster,
        "finding": alarm.id,
        "rule": alarm.rule,
        "team": alarm.team or "",
        "subject": alarm.subject,
        "gpu_uuid": alarm.gpu_uuid or "",
        "run_id": alarm.run_id or "",
        "agent": alarm.agent or "",
    }
    annotations = {
        "summary": alarm.sentence,
        "action": alarm.action or "",
        "at_stake": money(alarm.at_stake_micros, currency, 0) if alarm.at_stake_micros is not None else "",
        "link": alarm.link or "",
    }
    alert: dict[str, Any] = {
        "labels": {name: text for name, text in labels.items() if text},
        "annotations": {name: text for name, text in annotations.items() if text},
        "startsAt": iso(alarm.since),
        "endsAt": iso(ends_at),
    }
    return alert | ({"generatorURL": alarm.link} if alarm.link else {})


def webhook_body(event: Event, event_id: str, alarm: Alarm, at: int, cluster: str, currency: str) -> str:
    """Return one event as JSON; who gets the same `event_id` twice has seen it."""
    said = {"schema": "gpuledger/alarm", "version": _VERSION, "event": event, "event_id": event_id, "at": at}
    told = {"cluster": cluster, "currency": currency, "text": event_text(event, alarm), "alarm": asdict(alarm)}
    return json.dumps(said | told, ensure_ascii=False)


def event_text(event: Event, alarm: Alarm) -> str:
    """Return one event as a person reads it in a chat: the sentence, what to do, and where it stands."""
    head = {"opened": "Urgent: " if alarm.urgent else "", "ended": "Over: ", "test": "Test: "}[event]
    lines = [f"{head}{alarm.sentence}"]
    if alarm.action and event != "ended":
        lines.append(f"What to do: {alarm.action}")
    return "\n".join([*lines, *([alarm.link] if alarm.link else [])])


def _marked_up(text: str) -> str:
    """Return a text in which nobody's name is a sign: <!channel> would wake everybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _card(text: str) -> dict[str, Any]:
    blocks = [{"type": "TextBlock", "text": line, "wrap": True} for line in text.split("\n")]
    content = {"type": "AdaptiveCard", "version": "1.4", "body": blocks}
    return {
        "type": "message",
        "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": content}],
    }


# What a chat takes instead of our own JSON, by the host of its webhook's address or the end of that.
_CHATS: tuple[tuple[str, Callable[[str], dict[str, Any]]], ...] = (
    ("hooks.slack.com", lambda text: {"text": _marked_up(text)}),
    ("chat.googleapis.com", lambda text: {"text": text.replace("<", "‹").replace(">", "›")}),
    ("discord.com", lambda text: {"content": text, "allowed_mentions": {"parse": []}}),
    ("webhook.office.com", _card),
    ("logic.azure.com", _card),
    ("api.powerplatform.com", _card),
)


def chat_body(host: str, body: bytes) -> bytes:
    """Return an event's JSON as the chat at this host takes it; any other receiver gets the JSON as it is."""
    shape = next((made for end, made in _CHATS if host == end or host.endswith(f".{end}")), None)
    if shape is None:
        return body
    return json.dumps(shape(json_said(body.decode())["text"]), ensure_ascii=False).encode()


def signature(key: bytes, body: bytes, seconds: int) -> str:
    """Return the value of the header that proves who wrote a body, and when."""
    digest = hmac.new(key, f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"
