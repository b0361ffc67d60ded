"""What the site's collectors agree on: numbers, leases of streams, keys, join tokens, the audit. No telemetry.

The only importer of sqlalchemy and psycopg. One code path over SQLite (beside the store) and PostgreSQL (a fleet).
"""

from collector.registry.alarms import AlarmChange, AlarmPost, Alarms, KeptAlarm
from collector.registry.audit import Entry
from collector.registry.capacity import Bounds, CapacityEvent, CapacityRequest, PilotsSeen
from collector.registry.collectors import Collector
from collector.registry.joins import Join
from collector.registry.keys import Key
from collector.registry.leases import Lease
from collector.registry.mails import Mails, Queued, Send, Subscription
from collector.registry.registry import Registry, beside, open_registry

__all__ = [
    "AlarmChange",
    "AlarmPost",
    "Alarms",
    "Bounds",
    "CapacityEvent",
    "CapacityRequest",
    "Collector",
    "Entry",
    "Join",
    "KeptAlarm",
    "Key",
    "Lease",
    "Mails",
    "PilotsSeen",
    "Queued",
    "Registry",
    "Send",
    "Subscription",
    "beside",
    "open_registry",
]
