"""Keys, join tokens and the audit as lines that people read; times are UTC."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from collector.registry import AccessKey, AuditEntry, Join

_GAP = "  "
_WORDS = {"read": "read", "change": "changed", "refused": "refused"}


def key_lines(keys: Sequence[AccessKey], now: int, *, every: bool) -> list[str]:
    """Return the table of keys: those that are open, or `every` one."""
    shown = [key for key in keys if every or key.live(now)]
    rows = [(key.id, key.role, key.name, _scope(key), _state(key, now), _used(key), key.created_by) for key in shown]
    return _table(("KEY", "ROLE", "NAME", "SCOPE", "STATE", "LAST USED", "MADE BY"), rows) or ["there are no keys"]


def join_lines(joins: Sequence[Join], now: int, *, every: bool) -> list[str]:
    """Return the table of join tokens, below an empty line; nothing where there are none."""
    shown = [join for join in joins if every or _join_state(join, now).startswith("until")]
    rows = [
        (one.id, one.node_glob, f"{one.used} of {one.uses}", _join_state(one, now), one.created_by) for one in shown
    ]
    table = _table(("JOIN TOKEN", "HOSTS", "USED", "STATE", "MADE BY"), rows)
    return ["", *table] if table else []


def documents(rows: Sequence[AccessKey] | Sequence[Join]) -> list[dict[str, object]]:
    """Return keys or join tokens for programs: all but the hash."""
    return [{name: value for name, value in asdict(row).items() if name != "hash"} for row in rows]


def audit_lines(entries: Sequence[AuditEntry], names: Mapping[str, str]) -> list[str]:
    """Return the audit, the oldest first; `names` are those of the keys."""
    return _table(
        ("WHEN", "WHO", "DID", "WHAT", "", "TIMES"),
        [
            (
                _moment(entry.at),
                f"{entry.actor} {names.get(entry.actor, '')}".strip() or "without a key",
                f"{_WORDS[entry.kind]} {entry.action}" if entry.kind != "change" else entry.action,
                entry.subject,
                entry.detail,
                str(entry.count) if entry.kind != "change" else "",
            )
            for entry in entries
        ],
    )


def _scope(key: AccessKey) -> str:
    if key.node is not None:
        return f"host {key.node}"
    return f"team {', '.join(key.teams)}" if key.teams is not None else "all"


def _state(key: AccessKey, now: int) -> str:
    if key.revoked_at is not None:
        return f"revoked {_moment(key.revoked_at)}"
    if key.expires_at is None:
        return "open"
    return f"{'until' if key.live(now) else 'over since'} {_moment(key.expires_at)}"


def _used(key: AccessKey) -> str:
    return _moment(key.used_at) if key.used_at is not None else "never"


def _join_state(join: Join, now: int) -> str:
    if join.revoked_at is not None:
        return f"revoked {_moment(join.revoked_at)}"
    if join.used >= join.uses:
        return "used up"
    return f"{'until' if now < join.expires_at else 'over since'} {_moment(join.expires_at)}"


def _moment(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%d %H:%M")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]
