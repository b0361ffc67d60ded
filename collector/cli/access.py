"""The command `gpuledger admin access`: keys, join tokens and the audit of a site, beside its running servers.

What somebody must copy (a key, a join token) goes to standard output, alone; everything said about it to stderr.
"""

import argparse
import json
import os
import pwd
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from collector.access.open_access import registry_of
from collector.access.secret import JOIN, digest, new_secret
from collector.background import now_us
from collector.cli.table import table_lines, utc_text
from collector.config import CollectorConfig, settings_of_store
from collector.errors import ConfigError, StoreError
from collector.registry import AccessKey, AuditEntry, Join, Registry, registry_file
from collector.registry.roles import KEY_ROLES, TEAM_ROLES, KeyRole

_NEVER = "never"
_MOST_USES = 100_000
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LIFETIME = re.compile(r"(\d{1,5})([mhdw])")
_LONGEST_NAME = 100


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
    if wish.teams and wish.role not in TEAM_ROLES:
        raise ConfigError(
            f"--team is used with --role {' or '.join(TEAM_ROLES)}: a key with the role {wish.role} belongs to no team"
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


_WORDS = {"read": "read", "change": "changed", "refused": "refused"}


def _key_lines(keys: Sequence[AccessKey], now: int, *, every: bool) -> list[str]:
    """Return the table of keys: those that are open, or `every` one."""
    shown = [key for key in keys if every or key.live(now)]
    used = {key.id: "never" if key.used_at is None else _minute(key.used_at) for key in shown}
    rows = [(key.id, key.role, key.name, _scope(key), _state(key, now), used[key.id], key.created_by) for key in shown]
    return _table(("KEY", "ROLE", "NAME", "SCOPE", "STATE", "LAST USED", "CREATED BY"), rows) or ["there are no keys"]


def _join_lines(joins: Sequence[Join], now: int, *, every: bool) -> list[str]:
    """Return the table of join tokens, below an empty line; nothing where there are none."""
    shown = [join for join in joins if every or _join_state(join, now).startswith("until")]
    rows = [
        (one.id, one.node_glob, f"{one.used} of {one.uses}", _join_state(one, now), one.created_by) for one in shown
    ]
    table = _table(("JOIN TOKEN", "HOSTS", "USED", "STATE", "CREATED BY"), rows)
    return ["", *table] if table else []


def documents(rows: Sequence[AccessKey] | Sequence[Join]) -> list[dict[str, object]]:
    """Return keys or join tokens for programs: all but the hash."""
    return [{name: value for name, value in asdict(row).items() if name != "hash"} for row in rows]


def _audit_lines(entries: Sequence[AuditEntry], names: Mapping[str, str]) -> list[str]:
    """Return the audit, the oldest first; `names` are those of the keys."""
    return _table(
        ("WHEN", "WHO", "DID", "WHAT", "", "TIMES"),
        [
            (
                _minute(entry.at),
                f"{entry.actor} {names.get(entry.actor, '')}".strip() or "without a key",
                f"{_WORDS[entry.kind]} {entry.action}" if entry.kind != "change" else entry.action,
                entry.subject,
                entry.detail,
                str(entry.count) if entry.kind != "change" else "",
            )
            for entry in entries
        ],
    )


def _minute(microseconds: int) -> str:
    return utc_text(microseconds, seconds=False)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return table_lines([head, *rows]) if rows else []


def _scope(key: AccessKey) -> str:
    if key.node is not None:
        return f"host {key.node}"
    return f"team {', '.join(key.teams)}" if key.teams is not None else "all"


def _state(key: AccessKey, now: int) -> str:
    if key.revoked_at is not None:
        return f"revoked {_minute(key.revoked_at)}"
    if key.expires_at is None:
        return "active"
    return f"{'until' if key.live(now) else 'expired'} {_minute(key.expires_at)}"


def _join_state(join: Join, now: int) -> str:
    if join.revoked_at is not None:
        return f"revoked {_minute(join.revoked_at)}"
    if join.used >= join.uses:
        return "used up"
    return f"{'until' if now < join.expires_at else 'expired'} {_minute(join.expires_at)}"


_OK, _CHECK_FAILED = 0, 1
_MOST_ENTRIES = 10_000


def access(argv: list[str]) -> int:
    """Say who may write, read and change: keys of hosts, people and programs, join tokens, and the audit."""
    options = _parser().parse_args(argv)
    config = _config(options)
    call: Callable[[argparse.Namespace, CollectorConfig, Registry], int] = options.call
    with registry_of(config, config.store) as registry:
        return call(options, config, registry)


def _list(options: argparse.Namespace, _: CollectorConfig, registry: Registry) -> int:
    keys, joins, now = registry.keys.listed(), registry.joins.listed(), now_us()
    if options.json:
        print(json.dumps({"version": 1, "keys": documents(keys), "join_tokens": documents(joins)}, indent=1))
        return _OK
    print("\n".join(_key_lines(keys, now, every=options.all) + _join_lines(joins, now, every=options.all)))
    return _OK


def _add(options: argparse.Namespace, _: CollectorConfig, registry: Registry) -> int:
    wish = Wish(options.role, options.name, tuple(options.team or ()), options.node, lifetime(options.expires))
    _hand_over(issue(registry, wish, _actor(), now_us()), registry, f"the {options.role} key {options.name}")
    return _OK


def _join(options: argparse.Namespace, _: CollectorConfig, registry: Registry) -> int:
    token = join(
        registry,
        options.node_glob,
        options.uses,
        lifetime(options.lasts),
        _actor(),
        now_us(),
        replaces=options.replace,
    )
    _hand_over(token, registry, f"the join token for {options.node_glob}")
    _say("put it into a file on the host and name that in join_token_file of its [agent] settings")
    return _OK


def _revoke(options: argparse.Namespace, _: CollectorConfig, registry: Registry) -> int:
    missing = revoke(registry, options.ids, _actor(), now_us())
    for one in missing:
        _say(f"there is no active key or join token {one}; gpuledger admin access list --all shows all of them")
    if len(missing) < len(options.ids):
        _say("revoked; every collector that reaches the registry refuses it within seconds")
    return _CHECK_FAILED if missing else _OK


def _rotate(options: argparse.Namespace, _: CollectorConfig, registry: Registry) -> int:
    key = rotate(registry, options.id, lifetime(options.overlap), lifetime(options.expires), _actor(), now_us())
    _hand_over(key, registry, f"the successor of {options.id}")
    _say(f"{options.id} stays valid for {options.overlap}; until then both work; end it sooner with access revoke")
    return _OK


def _audit(options: argparse.Namespace, _: CollectorConfig, registry: Registry) -> int:
    since = 0 if options.since == "all" else now_us() - (lifetime(options.since) or 0)
    entries = registry.audit.since(since, _MOST_ENTRIES)
    if options.json:
        print(json.dumps({"version": 1, "entries": [asdict(entry) for entry in entries]}, indent=1))
        return _OK
    names = {key.id: key.name for key in registry.keys.listed()}
    print("\n".join(_audit_lines(entries, names)) or "no changes, reads or refusals in this time")
    return _OK


def _move_gpu(options: argparse.Namespace, _: CollectorConfig, registry: Registry) -> int:
    before = registry.homes.of([options.gpu]).get(options.gpu)
    registry.homes.move(options.gpu, options.node, now_us(), _actor())
    _say(
        f"what {options.node} reports of {options.gpu} is accepted within a minute; "
        f"it belonged to {before or 'no host'}"
    )
    return _OK


def _erase(options: argparse.Namespace, config: CollectorConfig, registry: Registry) -> int:
    from collector.access.erasure import (  # opens the store, which no other command here does
        Replacement,
        erase,
        pseudonym,
    )

    replacement = Replacement(options.name, options.pseudonym or pseudonym())
    erased = erase(config, registry, replacement, _actor())
    _say(f"{erased.row_count:,} rows changed, {erased.files:,} files removed; the name was replaced by")
    print(replacement.pseudonym, flush=True)
    _say("the name comes back from whatever still has it: agents' spools, the scheduler, a backup; see docs/access.md")
    others = [one for one in registry.collectors.listed() if one.alive_until > now_us()]
    if others:
        listed = ", ".join(f"{one.name} ({one.url})" for one in others)
        _say(f"run it for the stores of {listed} too, each stopped, with --as {replacement.pseudonym}")
    return _OK


def _hand_over(text: str, registry: Registry, what: str) -> None:
    _say(f"{what}, in the registry {registry.name}; it is shown only once:")
    print(text, flush=True)


def _say(sentence: str) -> None:
    print(f"gpuledger: {sentence}", file=sys.stderr)


def _config(options: argparse.Namespace) -> CollectorConfig:
    """Return the settings; without any the store is the one of this directory, and must be there."""
    config, _ = settings_of_store(options.store, options.config, os.environ)
    registry = registry_file(config.store)
    named = options.config or options.store or config.lake
    if not named and not config.store.exists() and not (registry and registry.exists()):
        raise StoreError(
            f"there is no store {config.store} here; name the server's settings with --config, or its --store FILE"
        )
    return config


def _actor() -> str:
    """Return who types: the user of this machine, and whoever became that user by sudo."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    behind = os.environ.get("SUDO_USER")
    return f"cli:{name}" + (f" ({behind})" if behind and behind != name else "")


def _parser() -> argparse.ArgumentParser:
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--config", type=Path, metavar="FILE", help="the server's settings file (TOML)")
    where.add_argument("--store", metavar="FILE", help="or its store; the registry is beside it")
    parser = argparse.ArgumentParser(
        prog="gpuledger admin access",
        description=access.__doc__,
        epilog="A site without any key answers on loopback only, and there everybody. From the first key or join token "
        "on, nobody gets in without one. docs/access.md says which role may do what.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, call: object, about: str, more: str = "") -> argparse.ArgumentParser:
        one = commands.add_parser(
            name, parents=[where], help=about, description=f"{about[0].upper()}{about[1:]}. {more}"
        )
        one.set_defaults(call=call)
        return one

    _list_options(command("list", _list, "list keys and join tokens; secrets are never shown again"))
    _add_options(command("add", _add, "create a key and show it once"))
    _rotate_options(
        command("rotate", _rotate, "create a successor to a key", "Both work until the overlap ends: no downtime.")
    )
    revoking = command("revoke", _revoke, "revoke keys or join tokens for good, within seconds")
    revoking.add_argument("ids", nargs="+", metavar="ID", help="as access list shows it")
    _join_options(
        command("join", _join, "create a token with which hosts get keys of their own", "It is not a key itself.")
    )
    moving = command(
        "move-gpu",
        _move_gpu,
        "record that a GPU is now in another host",
        "Otherwise it belongs to the host that reported it first.",
    )
    moving.add_argument("gpu", metavar="GPU", help="its UUID")
    moving.add_argument("node", metavar="HOST", help="the host that it is in now")
    _erase_options(
        command(
            "erase-user",
            _erase,
            "replace a person's name by a pseudonym, everywhere",
            "Stop the server first: its file is rewritten. Agents keep what they measure and send it later.",
        )
    )
    _audit_options(command("audit", _audit, "who changed what, who read money or names, who was refused"))
    return parser


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also what was revoked, has expired or is used up")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--role",
        choices=KEY_ROLES,
        required=True,
        help="agent: batches of one host; writer: Prometheus' remote write, and batches of any host; read: money, "
        "runs, pages; admin: read, replace the prices, have a backup made",
    )
    parser.add_argument("--name", required=True, help="who or what will hold it, like grafana")
    parser.add_argument(
        "--team",
        action="append",
        metavar="TEAM",
        help="with --role read, owner or approver: only this team; may be repeated",
    )
    parser.add_argument("--node", metavar="HOST", help="with --role agent: the host whose rows it may write")
    parser.add_argument(
        "--expires", default="never", metavar="TIME", help="after 12h, 90d, 52w; or never (the default)"
    )


def _rotate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="as access list shows it")
    parser.add_argument(
        "--overlap", default="7d", metavar="TIME", help="how long the old one stays valid (default: 7d)"
    )
    parser.add_argument("--expires", default="never", metavar="TIME", help="of the successor (default: never)")


def _join_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--node-glob", default="*", metavar="GLOB", help="names of the hosts, like 'n*' (default: any)")
    parser.add_argument("--uses", type=int, default=1, metavar="N", help="how many hosts it can enroll (default: 1)")
    parser.add_argument(
        "--for", dest="lasts", default="1d", metavar="TIME", help="how long it can be used (default: 1d)"
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="also hosts that have a key, as after a reinstallation; the old key is revoked",
    )


def _erase_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="as hosts and schedulers write it; whole words of it are replaced")
    parser.add_argument(
        "--as", dest="pseudonym", metavar="PSEUDONYM", help="the one that was used for another collector of the fleet"
    )


def _audit_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", default="7d", metavar="TIME", help="how far back: 12h, 30d, all (default: 7d)")
    parser.add_argument("--json", action="store_true", help="as JSON")
