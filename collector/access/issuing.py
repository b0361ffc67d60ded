"""Make, follow up and end keys and join tokens; every step is an entry of the audit, in the same transaction."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from collector.access.secret import JOIN, digest, new_secret
from collector.errors import ConfigError
from collector.registry import AccessKey, Join, Registry
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
            f"--team goes with --role {' or '.join(_OF_TEAMS)}: a key with the role {wish.role} is of no team"
        )
    if (wish.node is not None) != (wish.role == "agent"):
        raise ConfigError("--node goes with --role agent, and an agent's key needs it: it writes rows of one host")
    if not wish.name.strip() or len(wish.name) > _LONGEST_NAME or not wish.name.isprintable():
        raise ConfigError(f"--name says who holds the key, in 1 to {_LONGEST_NAME} characters")
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
        raise ConfigError(f"there is no open key {key_id}; gpuledger admin access list shows them")
    if overlap is None:
        raise ConfigError("--overlap has an end: two keys for one holder are for the time of a change")
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
        raise ConfigError("--for has an end: a join token that lies around lets anybody in who finds it")
    if not 1 <= uses <= _MOST_USES:
        raise ConfigError(f"--uses is {uses}: not 1 to {_MOST_USES} hosts")
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
        raise ConfigError(f"{text!r} is no time: write 30m, 12h, 90d, 4w, or never")
    return int(found[1]) * _SECONDS[found[2]] * 1_000_000
