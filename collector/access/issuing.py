"""Make, follow up and end keys and join tokens; every step is an entry of the audit, in the same transaction.

And what there is of them, and the audit, as lines that people read; times are UTC.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from collector.access.secret import JOIN, digest, new_secret
from collector.errors import ConfigError
from collector.registry import AccessKey, AuditEntry, Join, Registry
from collector.registry.roles import KeyRole

_NEVER = "never"
_MOST_USES = 100_000
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LIFETIME = re.compile(r"(\d{1,5})([mhdw])")
_LONGEST_NAME = 100
_OF_TEAMS = ("read", "owner", "approver")  # roles that may be of some teams alone


@dataclass(frozen=True, slots=True)
class Wish:
    """The key that somebody wants. `lifetime` in microseconds, None for ever."""

    role: KeyRole
    name: str
    teams: tuple[str, ...] = ()
    node: str | None = None
    lifetime: int | None = None


def issue(registry: Registry, wish: Wish, by: str, now: int) -> str:
    """Add a key and return it as it is shown this once.

    Raises:
        ConfigError: role and scope do not go together.
    """
    if wish.teams and wish.role not in _OF_TEAMS:
        raise ConfigError(
            f"--team is used with --role {' or '.join(_OF_TEAMS)}: a key with the role {wish.role} belongs to no team"
        )
    if (wish.node is not None) != (wish.role == "agent"):
        raise ConfigError(
            "--node is used with --role agent, and an agent's key requires it: it writes the rows of one host"
        )
    if not wish.name.strip() or len(wish.name) > _LONGEST_NAME or not wish.name.isprintable():
        raise ConfigError(f"--name says who holds the key: 1 to {_LONGEST_NAME} characters")
    new = new_secret(wish.role)
    until = now + wish.lifetime if wish.lifetime is not None else None
    teams = tuple(sorted(set(wish.teams))) or None
    registry.keys.add(AccessKey(new.id, wish.role, wish.name, digest(new.secret), now, by, wish.node, teams, until))
    return new.text


def rotate(registry: Registry, key_id: str, overlap: int | None, lifetime: int | None, by: str, now: int) -> str:
    """Add a successor with the same rights, and return it; the old key goes on for `overlap` microseconds.

    Raises:
        ConfigError: there is no such key, or it is not open.
    """
    old = next((key for key in registry.keys.listed() if key.id == key_id), None)
    if old is None or old.revoked_at is not None:
        raise ConfigError(f"there is no active key {key_id}; gpuledger admin access list shows them")
    if overlap is None:
        raise ConfigError("--overlap must end: two keys for one holder are only for a changeover")
    new = new_secret(old.role)
    successor = replace(
        old,
        id=new.id,
        hash=digest(new.secret),
        created_at=now,
        created_by=by,
        expires_at=now + lifetime if lifetime is not None else None,
        used_at=None,
        replaces=old.id,
    )
    registry.keys.rotate(successor, now + overlap)
    return new.text


def revoke(registry: Registry, ids: Sequence[str], by: str, now: int) -> list[str]:
    """Close keys or join tokens; return those of these ids that were none, or not open."""
    return [one for one in ids if not registry.keys.revoke([one], now, by) and not registry.joins.revoke(one, now, by)]


def join(
    registry: Registry, node_glob: str, uses: int, lifetime: int | None, by: str, now: int, *, replaces: bool
) -> str:
    """Add a join token and return it as it is shown this once.

    Raises:
        ConfigError: it would never end, or bring in nobody.
    """
    if lifetime is None:
        raise ConfigError("--for must end: a join token left lying around lets in anybody who finds it")
    if not 1 <= uses <= _MOST_USES:
        raise ConfigError(f"--uses is {uses}: must be 1 to {_MOST_USES} hosts")
    if not node_glob or len(node_glob) > _LONGEST_NAME:
        raise ConfigError("--node-glob is a pattern of host names, like 'n*'")
    new = new_secret(JOIN)
    registry.joins.add(Join(new.id, digest(new.secret), node_glob, uses, now, by, now + lifetime, replaces=replaces))
    return new.text


def lifetime(text: str) -> int | None:
    """Return 90d, 12h, 30m or 4w in microseconds, None for never.

    Raises:
        ConfigError: it is none of them.
    """
    if text == _NEVER:
        return None
    found = _LIFETIME.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise ConfigError(f"{text!r} is not a valid duration: use 30m, 12h, 90d, 4w, or never")
    return int(found[1]) * _SECONDS[found[2]] * 1_000_000


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
    return f"{'until' if key.live(now) else 'expired'} {_moment(key.expires_at)}"


def _used(key: AccessKey) -> str:
    return _moment(key.used_at) if key.used_at is not None else "never"


def _join_state(join: Join, now: int) -> str:
    if join.revoked_at is not None:
        return f"revoked {_moment(join.revoked_at)}"
    if join.used >= join.uses:
        return "used up"
    return f"{'until' if now < join.expires_at else 'expired'} {_moment(join.expires_at)}"


def _moment(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%d %H:%M")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]
