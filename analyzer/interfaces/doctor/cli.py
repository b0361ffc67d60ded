"""`gpuledger admin doctor`: examine a store, or have a running server examine its own."""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from analyzer.errors import LedgerError
from analyzer.interfaces.doctor.examination import document, examination, page
from analyzer.interfaces.doctor.sight import MailSight, Sight, read_beside
from analyzer.interfaces.mail.sending import greet
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.ledger.believed import believing
from analyzer.server_client import ask_server_json
from analyzer.settings.settings import TABLES, Settings
from collector.config import settings_of_store
from collector.store.database import open_for_command

_OK, _CHECK_FAILED = 0, 1
_PATH = "/v1/doctor"


def doctor(argv: list[str]) -> int:
    """What is well and what is not: ledger, store, agents, clocks, disk, keys, jobs, mail. Exit 1 where one is not."""
    parser = argparse.ArgumentParser(prog="gpuledger admin doctor", description=doctor.__doc__)
    parser.add_argument("--json", action="store_true", help="the same as JSON (docs/json.md)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    where.add_argument("--server", metavar="URL", help="ask a running server (its key: GPULEDGER_TOKEN)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")
    options = parser.parse_args(argv)
    said = _of_server(options.server) if options.server else _of_store(options)
    print(json.dumps(said, indent=1) if options.json else page(said))
    return _OK if said["right"] else _CHECK_FAILED


def _of_server(server: str) -> dict[str, Any]:
    said = ask_server_json(server, _PATH)
    if said.get("version") != 2:
        raise LedgerError(f"{server} answers in a version of {_PATH} that this release does not read; upgrade it")
    return said


def _of_store(options: argparse.Namespace) -> dict[str, Any]:
    config, file = settings_of_store(options.store, options.config, os.environ)
    settings, mails = Settings.read(file), MailSettings.read(file, TABLES)
    keys, sends, trouble = read_beside(config)
    mail = MailSight(mails, sends, lambda: greet(mails))
    with open_for_command(config, read_only=True) as store, believing(store) as session:
        sight = Sight(store, session, settings, config, time.time_ns() // 1000, keys, mail=mail, registry_error=trouble)
        return document(examination(sight))
