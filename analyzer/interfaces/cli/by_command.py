"""What people say by command, of findings and of recommendations: the arguments, who says it, and where it is kept."""

import argparse
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from analyzer.errors import ConfigError
from analyzer.ledger.believed import believing
from analyzer.period import Period
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings, settings_file
from collector.config import load
from collector.store.books import mirror_findings
from collector.store.database import Store
from collector.store.there import SHARED, check_there

T = TypeVar("T")
_TELL = "say it to a server that runs on it, with --server URL"


def word_parser(command: str, about: str | None, of: str) -> argparse.ArgumentParser:
    """Return the parser of a command that says something of one thing, on a store or to a running server."""
    parser = argparse.ArgumentParser(prog=f"gpuledger {command}", description=about)
    parser.add_argument("id", metavar="ID", help=of)
    parser.add_argument("--since", metavar="WHEN", help="the period it is of, where it is not the last complete week")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--store", type=Path, metavar="FILE", help="the store; no server may run on it")
    where.add_argument("--server", metavar="URL", help="tell a running server (its token: GPULEDGER_TOKEN)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")
    return parser


def where(options: argparse.Namespace, instead: str = _TELL) -> tuple[Path, Settings]:
    """Return the store that `--store` or the settings name, and the settings of `--config` or beside that store.

    Raises:
        ConfigError: the settings cannot be read, or the store's lake is shared; `instead` says what to do then.
    """
    path: Path = options.store or load(options.config, os.environ).store
    _refuse_shared_lake(path, options.config, instead)
    return path, Settings.read(settings_file(path, options.config))


def _refuse_shared_lake(store: Path, config: Path | None, instead: str) -> None:
    """Refuse to write beside the analyzers of a lake that several hosts share: its books are not in the store's file.

    Raises:
        ConfigError: the store's settings name such a lake.
    """
    if load(settings_file(store, config), os.environ).lake.startswith(SHARED):
        raise ConfigError(f"the lake of {store} is one that its settings share with other hosts: {instead}")


def on_store(path: Path, settings: Settings, since: str | None, tell: Callable[[Reader, Period], T]) -> T:
    """Return what `tell` keeps of a period, in one transaction; the lake's books say it too.

    Raises:
        StoreError: there is no such store, or somebody else has it.
    """
    check_there(path)
    with Store.open(path, memory_limit=settings.memory_limit, threads=settings.threads) as store:
        with believing(store) as session:
            reader = Reader(session, settings)
            with session.transaction():
                answer = tell(reader, reader.period(since))
        mirror_findings(store)
    return answer


def who() -> str:
    """Return who says it: the user of this machine."""
    try:
        return f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"cli:{os.getuid()}"
