"""What people say by command of findings and recommendations: who says it, where it is kept, and the four commands."""

import argparse
import os
import pwd
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from textwrap import fill
from typing import Any

from analyzer.errors import ConfigError
from analyzer.findings.judgement import VERDICTS, Judgement, Mute, mute_until, reason_of, verdict_of
from analyzer.findings.say import Statement, keep_judgement, keep_mute
from analyzer.interfaces.cli.command import add_place
from analyzer.ledger.believed import believing
from analyzer.period import Period
from analyzer.recommendations.lifecycle.lifecycle_tables import Decision, Word, decide, moment_of
from analyzer.reports.reader import Reader
from analyzer.server_client import ask_server_json, zone_of
from analyzer.settings.settings import Settings, site_of
from analyzer.text.words import moment_words, until_words
from collector.config import SHARED, CollectorConfig, check_there
from collector.store.books import mirror_findings
from collector.store.database import open_for_command

_Keep = Callable[[Reader, Period, Statement], Judgement | Mute | Word]
_TELL = "say it to a server that runs on it, with --server URL"


def _word_parser(command: str, about: str | None, of: str) -> argparse.ArgumentParser:
    """Return the parser of a command that says something of one thing, on a store or to a running server."""
    parser = argparse.ArgumentParser(prog=f"gpuledger {command}", description=about)
    parser.add_argument("id", metavar="ID", help=of)
    parser.add_argument("--since", metavar="WHEN", help="the period it is of, where it is not the last complete week")
    add_place(parser, "the store; no server may run on it", "tell a running server (its token: GPULEDGER_TOKEN)")
    return parser


def where(options: argparse.Namespace, instead: str = _TELL) -> tuple[CollectorConfig, Settings]:
    """Return the settings of the server of the store that `--store` or the settings name, the collector's and ours.

    Raises:
        ConfigError: the settings cannot be read, or the store's lake is shared; `instead` says what to do then.
    """
    config, settings = site_of(options.store, options.config)
    if config.lake.startswith(SHARED):  # its books are not in the store's file
        raise ConfigError(f"the lake of {config.store} is one that its settings share with other hosts: {instead}")
    return config, settings


def _say(
    options: argparse.Namespace, what: str, path: str, keeper: Callable[[str], _Keep], **body: str | None
) -> tuple[Mapping[str, Any], str]:
    """Tell the server of --server, else keep it in the store here; return what is kept, and the site's time zone.

    A store that no server has keeps it in one transaction, and in the lake's books. `keeper` is asked with the time
    zone before a store is opened, and refuses what cannot be kept.

    Raises:
        ConfigError: it cannot be read: a date that has passed, a reason of blanks.
        LedgerError: there is no such finding or recommendation, or the server does not answer.
        StoreError: there is no such store, or somebody else has it.
    """
    if options.server:
        given: dict[str, object] = {name: value for name, value in (body | {"since": options.since}).items() if value}
        document = ask_server_json(options.server, f"/v1/{path}", given)
        return document[what], zone_of(document)
    config, settings = where(options)
    keep = keeper(settings.timezone)
    check_there(config)
    said = Statement(body["because"] or "", who(), time.time_ns() // 1000)
    with open_for_command(config, memory_limit=settings.memory_limit, threads=settings.threads) as store:
        with believing(store) as session:
            reader = Reader(session, settings)
            with session.transaction():
                kept = asdict(keep(reader, reader.period(options.since), said))
        mirror_findings(store)
    return kept, settings.timezone


def who() -> str:
    """Return who says it: the user of this machine."""
    try:
        return f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"cli:{os.getuid()}"


_OK = 0
_COLUMNS = 78
_FINDING = "the finding's id"
_SAYS = {
    "right": "counted: it was right",
    "wrong": "counted: it was wrong. The ledger stays as it was measured; what changes is our accuracy",
    "planned": "counted: it was right, and is accepted",
}


def judge(argv: list[str]) -> int:
    """Say whether a finding is right, wrong, or right and planned. It is kept, and counted."""
    parser = _word_parser("findings judge", judge.__doc__, _FINDING)
    parser.add_argument("verdict", choices=VERDICTS, metavar=" | ".join(VERDICTS))
    parser.add_argument("--because", required=True, metavar="WHY", help="one sentence; kept with it")
    options = parser.parse_args(argv)
    because, verdict = reason_of(options.because), verdict_of(options.verdict)

    def keep(reader: Reader, period: Period, said: Statement) -> Judgement:
        return keep_judgement(reader.session, reader.findings(period), period, options.id, verdict, said)

    path = f"findings/{options.id}/judgement"
    kept, _ = _say(options, "judgement", path, lambda _: keep, verdict=verdict, because=because)
    print(fill(f"{options.id}, {kept['period_label']}: {_SAYS[options.verdict]}.", _COLUMNS))
    return _OK


def mute(argv: list[str]) -> int:
    """Leave a finding out of the list until a date. Its time stays in every sum, and the list says how many."""
    parser = _word_parser("findings mute", mute.__doc__, _FINDING)
    parser.add_argument("--until", required=True, metavar="DATE", dest="end", help="2026-12-01, the day included")
    parser.add_argument("--because", required=True, metavar="WHY", help="one sentence; kept with it")
    options = parser.parse_args(argv)
    because, end = reason_of(options.because), options.end

    def keeper(zone: str) -> _Keep:
        mute_until(end, zone, time.time_ns() // 1000)
        return lambda reader, period, said: keep_mute(
            reader.session, reader.findings(period), period, options.id, end, zone, said
        )

    kept, zone = _say(options, "mute", f"findings/{options.id}/mute", keeper, until=end, because=because)
    until = until_words(int(kept["until"]), zone)
    print(fill(f"{options.id} is muted until {until}; gpuledger findings --all lists it meanwhile.", _COLUMNS))
    return _OK


_ADVICE = "the recommendation's id, as gpuledger recommendations lists it"


def accept(argv: list[str]) -> int:
    """Say that a recommendation is to be done. From then on it is looked at whether it is, and what it saves."""
    parser = _word_parser("recommendations accept", accept.__doc__, _ADVICE)
    parser.add_argument(
        "--applied-at",
        metavar="WHEN",
        help="2026-11-12 or 2026-11-12T08:00: it has been done then; for what cannot be seen from allocations",
    )
    parser.add_argument("--because", metavar="WHY", default="", help="one sentence; kept with it")
    options = parser.parse_args(argv)
    known, applied_at = _decided(options, "accepted", options.applied_at)
    if applied_at is None:
        told = "accepted. gpuledger recommendations savings says once it is seen to be applied, and what it saves"
    else:
        told = f"accepted, and applied on {applied_at}. gpuledger recommendations savings says what it saves"
    print(fill(f"{known}: {told}.", _COLUMNS))
    return _OK


def reject(argv: list[str]) -> int:
    """Say that a recommendation is not to be done, and why. It is kept, and not made again for a while."""
    parser = _word_parser("recommendations reject", reject.__doc__, _ADVICE)
    parser.add_argument("--because", required=True, metavar="WHY", help="one sentence; kept with it")
    known, _ = _decided(parser.parse_args(argv), "rejected", None)
    print(fill(f"{known}: rejected, and kept with its reason. accept takes it back.", _COLUMNS))
    return _OK


def _decided(options: argparse.Namespace, word: Decision, applied: str | None) -> tuple[str, str | None]:
    """Keep the decision; return the whole id, and in words when the change was made."""
    because = reason_of(options.because) if word == "rejected" or options.because else ""

    def keeper(zone: str) -> _Keep:
        applied_at = moment_of(applied, zone, time.time_ns() // 1000) if applied else None

        def keep(reader: Reader, period: Period, said: Statement) -> Word:
            offer, realised = reader.offered(options.id, period), reader.advice_options.realised(reader.session)
            return decide(reader.session, offer, lambda _: True, options.id, word, said, applied_at, realised)

        return keep

    path = f"recommendations/{options.id}/{'acceptance' if word == 'accepted' else 'rejection'}"
    kept, zone = _say(options, "decision", path, keeper, because=because, applied_at=applied)
    at = kept["applied_at"]
    return str(kept["recommendation_id"]), None if at is None else moment_words(at, zone)
