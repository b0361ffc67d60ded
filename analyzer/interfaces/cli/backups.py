"""gpuledger admin backup, backup verify, and restore; each backup is opened and proven before it is called whole."""

import argparse
import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analyzer.errors import LedgerError
from analyzer.interfaces.doctor.invariants import examine
from analyzer.ledger.believed import believing
from analyzer.server_client import ask_server_json
from analyzer.settings.settings import Settings
from collector.backup.backup_maker import KEEP, backups, make_backup
from collector.backup.manifest import NAME, Layout, Manifest, as_json, open_backup
from collector.backup.restoring import Verdict
from collector.backup.restoring import restore as put_back
from collector.backup.restoring import verify as verified
from collector.config import settings_of_store
from collector.errors import BackupError
from collector.store.database import open_for_command


def _chosen_backup(folder: Path) -> Path:
    """Return the backup that is meant: the folder itself, or the newest in it.

    Raises:
        BackupError: there is none.
    """
    if (folder / NAME).is_file():
        return folder
    found = backups(folder)
    if not found:
        raise BackupError(f"there is no backup in {folder}; gpuledger admin backup --to {folder} makes one")
    return found[-1]


def proved(folder: Path, settings: Settings) -> Verdict:
    """Read all of a backup, open it, count it, and hold its ledger to the invariants.

    Raises:
        BackupError: it has no manifest that can be read.
    """
    verdict = verified(folder)
    if verdict.wrong or verdict.manifest.elsewhere:  # the samples that the invariants speak of are not here
        return verdict
    with open_backup(Layout.within(folder)) as store, believing(store) as session:
        checks = examine(session, settings)
    wrong = tuple(f"{check.name}: {check.off:,} {check.unit} off" for check in checks if not check.is_right)
    return Verdict(verdict.manifest, wrong)


_OK, _CHECK_FAILED = 0, 1
_ASKING_SECONDS = 1.0
_LONGEST_SECONDS = 24 * 3600.0  # that a server is asked whether it has ended


def backup(argv: list[str]) -> int:
    """Copy a store while it is written: the hot file, the registry, the lake; what the last backup has is linked."""
    parser = argparse.ArgumentParser(prog="gpuledger admin backup", description=backup.__doc__)
    parser.add_argument("--to", required=True, metavar="DIR", help="the folder that backups lie in")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--store", type=Path, metavar="FILE", help="a store that nobody serves (default: the settings')")
    where.add_argument("--server", metavar="URL", help="have this server do it (its admin's key: GPULEDGER_TOKEN)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML")
    parser.add_argument("--keep", type=int, default=KEEP, metavar="N", help="how many to keep (default: %(default)s)")
    options = parser.parse_args(argv)
    if options.keep < 1:
        parser.error("--keep must be 1 or more")
    told = _by_server(options) if options.server else _here(options)
    print(f"{told['path']}: {told['files']} files, {_size(told['bytes'])}, of which {_size(told['new_bytes'])} are new")
    if told.get("elsewhere"):  # a server of an earlier release does not say
        print(_not_within(told["elsewhere"]))
    return _OK


def verify(argv: list[str]) -> int:
    """Read a backup whole: every hash, every row count, and the invariants of its ledger. Exit 1 if it is not whole."""
    parser = argparse.ArgumentParser(prog="gpuledger admin backup verify", description=verify.__doc__)
    parser.add_argument("backup", type=Path, metavar="DIR", help="one backup, or the folder whose newest is meant")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML, for the prices in force")
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(argv)
    folder = _chosen_backup(options.backup)
    verdict = proved(folder, Settings.read(options.config))
    if options.json:
        print(
            json.dumps(
                {"version": 1, "path": str(folder), "wrong": verdict.wrong} | as_json(verdict.manifest), indent=1
            )
        )
    else:
        print("\n".join(_verdict(folder, verdict.manifest, verdict.wrong)))
    return _OK if verdict.is_whole else _CHECK_FAILED


def restore(argv: list[str]) -> int:
    """Make a store of a backup, where there is none; agents then send again what they still hold."""
    parser = argparse.ArgumentParser(prog="gpuledger admin restore", description=restore.__doc__)
    parser.add_argument("backup", type=Path, metavar="DIR", help="one backup, or the folder whose newest is meant")
    parser.add_argument("--store", type=Path, required=True, metavar="FILE", help="where; nothing may lie there")
    options = parser.parse_args(argv)
    folder = _chosen_backup(options.backup)
    manifest = put_back(folder, options.store)
    print(f"{options.store}: the store as of {_time(manifest.made_at)} UTC, {_size(manifest.bytes)}")
    if Layout(options.store).registry.exists():
        print(
            "its keys are those of then: one that was revoked since opens again (gpuledger admin access list, revoke)"
        )
    if manifest.elsewhere:
        print(f"its {' and '.join(manifest.elsewhere)} lie elsewhere: docs/operations.md says how they come back")
    return _OK


def _here(options: argparse.Namespace) -> dict[str, Any]:
    config, _ = settings_of_store(options.store, options.config, os.environ)
    with open_for_command(config, read_only=True) as store:
        made = make_backup(store, Path(options.to), keep=options.keep)
    manifest = made.manifest
    return {
        "path": str(made.path),
        "files": len(manifest.files),
        "bytes": manifest.bytes,
        "new_bytes": made.new_bytes,
        "elsewhere": manifest.elsewhere,
    }


def _by_server(options: argparse.Namespace) -> dict[str, Any]:
    from collector.backup.routes import PATH  # it brings the server

    begun = ask_server_json(options.server, PATH, {"to": options.to, "keep": options.keep})["started_at"]
    until = time.monotonic() + _LONGEST_SECONDS
    while time.monotonic() < until:
        last = ask_server_json(options.server, PATH)["last"]
        if last is not None and last["started_at"] >= (begun or 0):
            if last["error"]:
                raise LedgerError(f"{options.server} made no backup: {last['error']}")
            return dict(last)
        time.sleep(_ASKING_SECONDS)
    raise LedgerError(f"{options.server} has made a backup for a day and has not ended; its log says more")


def _verdict(folder: Path, manifest: Manifest, wrong: tuple[str, ...]) -> list[str]:
    rows = sum(manifest.hot_rows.values()) + sum(manifest.lake_rows.values())
    lines = [
        f"{folder}",
        f"  made {_time(manifest.made_at)} UTC by gpuledger {manifest.release}, schema {manifest.migration}",
        f"  {len(manifest.files):,} files, {_size(manifest.bytes)}, {rows:,} rows",
    ]
    if manifest.elsewhere:
        lines.append(f"  {_not_within(manifest.elsewhere)}")
    lines += [f"  WRONG  {sentence}" for sentence in wrong]
    lines.append("it is not whole; restore another one" if wrong else "it is whole")
    return lines


def _not_within(elsewhere: Sequence[str]) -> str:
    return f"not in it: {', '.join(elsewhere)}; they lie elsewhere (docs/operations.md)"


def _size(count: int) -> str:
    return f"{count / 10**9:,.1f} GB" if count >= 10**9 else f"{count / 10**6:,.1f} MB"


def _time(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
