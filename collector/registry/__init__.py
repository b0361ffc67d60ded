"""What the site's collectors agree on: numbers, leases of streams, keys, join tokens, the audit. No telemetry.

The only importer of sqlalchemy and psycopg. One code path over SQLite (beside the store) and PostgreSQL (a fleet).
"""

from collector.registry.alarms import AlarmChange, AlarmPost, Alarms, KeptAlarm
from collector.registry.audit import AuditEntry
from collector.registry.capacity import Bounds, CapacityEvent, CapacityRequest, PilotsSeen
from collector.registry.keys import AccessKey, Join
from collector.registry.leases import Collector, Lease
from collector.registry.mails import Mails, Queued, Send, Subscription
from collector.registry.registry import Registry, open_registry, registry_file

__all__ = [
    "AccessKey",
    "AlarmChange",
    "AlarmPost",
    "Alarms",
    "AuditEntry",
    "Bounds",
    "CapacityEvent",
    "CapacityRequest",
    "Collector",
    "Join",
    "KeptAlarm",
    "Lease",
    "Mails",
    "PilotsSeen",
    "Queued",
    "Registry",
    "Send",
    "Subscription",
    "open_registry",
    "registry_file",
]
