"""gpuledger admin lake check, and lake aside: which files of the lake are damaged, and how to go on without them."""

import argparse
import json
import math
import os
from dataclasses import asdict
from pathlib import Path

from collector.background import now_us
from collector.backup.manifest import place_of
from collector.cli.table import utc_text
from collector.config import CollectorConfig, settings_of_store
from collector.errors import StoreError
from collector.lake.damage import FOLDER, Damage, damage_sentence, give_up, put_back, require_catalogue, set_aside
from collector.lake.damage import check as look_through
from collector.store.database import Store, open_for_command, open_store
from collector.store.noted import Lost

_OK, _CHECK_FAILED = 0, 1


def check(argv: list[str]) -> int:
    """Read every file of the lake, and say which are damaged or missing. Exit 1 where one is."""
    parser = argparse.ArgumentParser(prog="gpuledger admin lake check", description=check.__doc__)
    _add_store(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(argv)
    with _opened(options, read_only=True) as store:
        require_catalogue(store)
        _, damages = look_through(store, math.inf, now_us(), notes_it=False)
        seen = store.lake is not None and store.lake.folder is not None
    if options.json:
        print(json.dumps({"version": 1, "read": seen, "damaged": [asdict(damage) for damage in damages]}, indent=1))
    else:
        print("\n".join(map(str, damages)) or _nothing(seen=seen))
    return _CHECK_FAILED if damages else _OK


def aside(argv: list[str]) -> int:
    """Put damaged files of the lake back from a backup, or set them aside: what is booked later is not measured."""
    parser = argparse.ArgumentParser(prog="gpuledger admin lake aside", description=aside.__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="names of damaged files, as lake check prints them")
    parser.add_argument("--all", action="store_true", help="every file that is damaged or missing")
    _add_store(parser)
    parser.add_argument("--backups", type=Path, metavar="DIR", help="where backups lie (default: as the settings say)")
    options = parser.parse_args(argv)
    if bool(options.files) == options.all:
        parser.error("name files, or use --all")
    with _opened(options, read_only=False) as store:
        _, damages = look_through(store, math.inf, now_us())
        chosen = damages if options.all else _chosen(damages, options.files)
        mended = put_back(store, chosen, options.backups or place_of(_config(options), store.path or Path()))
        chosen = [damage for damage in chosen if damage not in mended]
        gone = [*set_aside(store, chosen), *(give_up(store) if options.all else [])]
        beside = store.lake.folder.parent / FOLDER if store.lake is not None and store.lake.folder is not None else ""
    for damage in mended:
        print(f"restored from a backup: {damage.name} of {damage.table}")
    if mended and not gone and not chosen:
        return _OK
    if not gone and not chosen:
        print("no file of the lake is damaged; nothing was set aside")
        return _OK
    print("\n".join(map(_said, gone)))
    print(
        f"{len(chosen)} files set aside in {beside}; gpuledger admin analyze, or the server's next pass, "
        "recalculates the rest"
    )
    return _OK


def _chosen(damages: list[Damage], names: list[str]) -> list[Damage]:
    by_name = {damage.name: damage for damage in damages}
    for name in names:
        if name not in by_name:
            raise StoreError(
                f"no file {name} of the lake is damaged; " + (damage_sentence(damages) if damages else "none is")
            )
    return [by_name[name] for name in names]


def _said(rows: Lost) -> str:
    of = f"{rows.rows:,} rows of {rows.table}" if rows.rows is not None else f"rows of {rows.table}"
    if rows.first_at is None or rows.last_at is None:
        return f"lost: {of}"
    return f"lost: {of}, {utc_text(rows.first_at)} to {utc_text(rows.last_at)} UTC"


def _nothing(*, seen: bool) -> str:
    if not seen:
        return "nothing was read: there is no lake, or its files lie in an object store, which looks after them itself"
    return "every file of the lake is as it was written, or can be read where that was not noted"


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML")


def _config(options: argparse.Namespace) -> CollectorConfig:
    return settings_of_store(options.store, options.config, os.environ)[0]


def _opened(options: argparse.Namespace, *, read_only: bool) -> Store:
    config = _config(options)
    if not config.store.exists():
        raise StoreError(f"there is no store at {config.store}")
    if not read_only and not _opens(config):
        return open_store(config, may_lack=True)  # what is lost is made anew, to be gone on with
    return open_for_command(config, read_only=read_only, may_lack=True)


def _opens(config: CollectorConfig) -> bool:
    try:
        open_for_command(config, read_only=True).close()
    except StoreError:
        return False
    return True
