"""How alarms are spelled: as Alertmanager's API takes them, and as the JSON that the webhook gets, signed.

Sources: Alertmanager's API, https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml (postableAlerts);
HMAC, RFC 2104.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal

from analyzer.interfaces.alarms.alarm import Alarm
from analyzer.period import iso
from analyzer.text.words import money

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
        "severity": "critical" if alarm.urgent else "warning",
        "cluster": cluster,
        "finding": alarm.id,
        "rule": alarm.rule,
        "team": alarm.team or "",
        "subject": alarm.subject,
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
    return json.dumps(said | {"cluster": cluster, "currency": currency, "alarm": asdict(alarm)}, ensure_ascii=False)


def signature(key: bytes, body: bytes, seconds: int) -> str:
    """Return the value of the header that proves who wrote a body, and when."""
    digest = hmac.new(key, f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"
