"""The command `gpuledger admin access`: keys, join tokens and the audit of a site, beside its running servers.

What somebody must copy (a key, a join token) goes to standard output, alone; everything said about it to stderr.
"""

import argparse
import json
import os
import pwd
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from collector.access.issuing import (
    Wish,
    audit_lines,
    documents,
    issue,
    join,
    join_lines,
    key_lines,
    lifetime,
    revoke,
    rotate,
)
from collector.access.open_access import registry_of
from collector.config import CollectorConfig, load
from collector.errors import StoreError
from collector.registry import Registry, registry_file
from collector.registry.roles import KEY_ROLES

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
    keys, joins, now = registry.keys.listed(), registry.joins.listed(), _now()
    if options.json:
        print(json.dumps({"version": 1, "keys": documents(keys), "join_tokens": documents(joins)}, indent=1))
        return _OK
    print("\n".join(key_lines(keys, now, every=options.all) + join_lines(joins, now, every=options.all)))
    return _OK


def _add(options: argparse.Namespace, _: CollectorConfig, registry: Registry) -> int:
    wish = Wish(options.role, options.name, tuple(options.team or ()), options.node, lifetime(options.expires))
    _hand_over(issue(registry, wish, _actor(), _now()), registry, f"the {options.role} key {options.name}")
    return _OK


def _join(options: argparse.Namespace, _: CollectorConfig, registry: Registry) -> int:
    token = join(
        registry,
        options.node_glob,
        options.uses,
        lifetime(options.lasts),
        _actor(),
        _now(),
        replaces=options.replace,
    )
    _hand_over(token, registry, f"the join token for {options.node_glob}")
    _say("put it into a file on the host and name that in join_token_file of its [agent] settings")
    return _OK


def _revoke(options: argparse.Namespace, _: CollectorConfig, registry: Registry) -> int:
    missing = revoke(registry, options.ids, _actor(), _now())
    for one in missing:
        _say(f"there is no active key or join token {one}; gpuledger admin access list --all shows all of them")
    if len(missing) < len(options.ids):
        _say("revoked; every collector that reaches the registry refuses it within seconds")
    return _CHECK_FAILED if missing else _OK


def _rotate(options: argparse.Namespace, _: CollectorConfig, registry: Registry) -> int:
    key = rotate(registry, options.id, lifetime(options.overlap), lifetime(options.expires), _actor(), _now())
    _hand_over(key, registry, f"the successor of {options.id}")
    _say(f"{options.id} stays valid for {options.overlap}; until then both work; end it sooner with access revoke")
    return _OK


def _audit(options: argparse.Namespace, _: CollectorConfig, registry: Registry) -> int:
    since = 0 if options.since == "all" else _now() - (lifetime(options.since) or 0)
    entries = registry.audit.since(since, _MOST_ENTRIES)
    if options.json:
        print(json.dumps({"version": 1, "entries": [asdict(entry) for entry in entries]}, indent=1))
        return _OK
    names = {key.id: key.name for key in registry.keys.listed()}
    print("\n".join(audit_lines(entries, names)) or "no changes, reads or refusals in this time")
    return _OK


def _move_gpu(options: argparse.Namespace, _: CollectorConfig, registry: Registry) -> int:
    before = registry.homes.of([options.gpu]).get(options.gpu)
    registry.homes.move(options.gpu, options.node, _now(), _actor())
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
    others = [one for one in registry.collectors.listed() if one.alive_until > _now()]
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
    config = load(options.config, os.environ, {"store": options.store})
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


def _now() -> int:
    return time.time_ns() // 1000


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
