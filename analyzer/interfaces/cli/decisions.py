"""What people say by command of findings and recommendations: who says it, where it is kept, and the four commands."""

import argparse
import os
import pwd
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, Protocol, TypeVar

from analyzer.errors import ConfigError
from analyzer.findings.judgement import VERDICTS, mute_until, reason_of, verdict_of
from analyzer.findings.say import Statement, keep_judgement, keep_mute
from analyzer.ledger.believed import believing
from analyzer.period import Period
from analyzer.recommendations.lifecycle.lifecycle_tables import decide
from analyzer.recommendations.lifecycle.status import Decision, moment_of
from analyzer.reports.reader import Reader
from analyzer.server_client import ask_server_json, zone_of
from analyzer.settings.settings import Settings, site_of
from analyzer.text.words import moment_words, until_words
from collector.config import SHARED, CollectorConfig, check_there
from collector.store.books import mirror_findings
from collector.store.database import open_for_command

T = TypeVar("T")
_TELL = "say it to a server that runs on it, with --server URL"


class StatementTarget(Protocol):
    """Whoever keeps what people say of findings and recommendations: a store, or a running server.

    Raises (of each method):
        ConfigError: it cannot be read: a date that has passed, a reason of blanks.
        LedgerError: there is no such finding or recommendation, or the server does not answer.
        StoreError: there is no such store, or somebody else has it.
    """

    def judge(self, finding_id: str, verdict: str, because: str, since: str | None) -> str:
        """Keep whether a finding is right; return the period that it is said of."""

    def mute(self, finding_id: str, until: str, because: str, since: str | None) -> str:
        """Leave a finding out of lists; return until when, in words."""

    def decide(
        self, advice_id: str, decision: Decision, because: str, applied: str | None, since: str | None
    ) -> tuple[str, str | None]:
        """Keep a decision; return the whole id, and in words when the change was made."""


def _word_parser(command: str, about: str | None, of: str) -> argparse.ArgumentParser:
    """Return the parser of a command that says something of one thing, on a store or to a running server."""
    parser = argparse.ArgumentParser(prog=f"gpuledger {command}", description=about)
    parser.add_argument("id", metavar="ID", help=of)
    parser.add_argument("--since", metavar="WHEN", help="the period it is of, where it is not the last complete week")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--store", type=Path, metavar="FILE", help="the store; no server may run on it")
    where.add_argument("--server", metavar="URL", help="tell a running server (its token: GPULEDGER_TOKEN)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")
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


@dataclass(frozen=True, slots=True)
class _StoreTarget:
    """A store on this machine that no server has: what is said is kept in one transaction, and in the lake's books."""

    config: CollectorConfig
    settings: Settings

    def judge(self, finding_id: str, verdict: str, because: str, since: str | None) -> str:
        """Keep a judgement. Raises as StatementTarget.judge()."""
        return self._say(
            because,
            since,
            lambda reader, period, said: (
                keep_judgement(reader.session, reader.findings(period), period, finding_id, verdict, said).period_label
            ),
        )

    def mute(self, finding_id: str, until: str, because: str, since: str | None) -> str:
        """Keep that a finding is muted. Raises as StatementTarget.mute()."""
        zone = self.settings.timezone
        mute_until(until, zone, time.time_ns() // 1000)  # what is refused is refused before a store is opened

        def tell(reader: Reader, period: Period, said: Statement) -> int:
            return keep_mute(reader.session, reader.findings(period), period, finding_id, until, zone, said).until

        return until_words(self._say(because, since, tell), zone)

    def decide(
        self, advice_id: str, decision: Decision, because: str, applied: str | None, since: str | None
    ) -> tuple[str, str | None]:
        """Keep a decision. Raises as StatementTarget.decide()."""
        zone = self.settings.timezone
        applied_at = moment_of(applied, zone, time.time_ns() // 1000) if applied else None

        def tell(reader: Reader, period: Period, said: Statement) -> str:
            offer, realised = reader.offered(advice_id, period), reader.advice_options.realised(reader.session)
            kept = decide(reader.session, offer, lambda _: True, advice_id, decision, said, applied_at, realised)
            return kept.recommendation_id

        return self._say(because, since, tell), _moment(applied_at, zone)

    def _say(self, because: str, since: str | None, tell: Callable[[Reader, Period, Statement], T]) -> T:
        check_there(self.config)
        settings, said = self.settings, Statement(because, who(), time.time_ns() // 1000)
        with open_for_command(self.config, memory_limit=settings.memory_limit, threads=settings.threads) as store:
            with believing(store) as session:
                reader = Reader(session, settings)
                with session.transaction():
                    answer = tell(reader, reader.period(since), said)
            mirror_findings(store)
        return answer


@dataclass(frozen=True, slots=True)
class _ServerTarget:
    """A running server."""

    address: str

    def judge(self, finding_id: str, verdict: str, because: str, since: str | None) -> str:
        """Send a judgement. Raises as StatementTarget.judge()."""
        told = self._say(f"findings/{finding_id}/judgement", since, verdict=verdict_of(verdict), because=because)
        return str(told["judgement"]["period_label"])

    def mute(self, finding_id: str, until: str, because: str, since: str | None) -> str:
        """Send that a finding is muted. Raises as StatementTarget.mute()."""
        told = self._say(f"findings/{finding_id}/mute", since, until=until, because=because)
        return until_words(int(told["mute"]["until"]), zone_of(told))

    def decide(
        self, advice_id: str, decision: Decision, because: str, applied: str | None, since: str | None
    ) -> tuple[str, str | None]:
        """Send a decision. Raises as StatementTarget.decide()."""
        path = f"recommendations/{advice_id}/{'acceptance' if decision == 'accepted' else 'rejection'}"
        told = self._say(path, since, because=because, applied_at=applied)
        kept = told["decision"]
        return str(kept["recommendation_id"]), _moment(kept["applied_at"], zone_of(told))

    def _say(self, path: str, since: str | None, **body: str | None) -> dict[str, Any]:
        given: dict[str, object] = {name: value for name, value in (body | {"since": since}).items() if value}
        return ask_server_json(self.address, f"/v1/{path}", given)


def _target_of(options: argparse.Namespace) -> StatementTarget:
    """Return who is told: the server of --server, or else the store here."""
    return _ServerTarget(options.server) if options.server else _StoreTarget(*where(options))


def _moment(instant: int | None, timezone: str) -> str | None:
    return None if instant is None else moment_words(instant, timezone)


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
    label = _target_of(options).judge(options.id, options.verdict, reason_of(options.because), options.since)
    print(fill(f"{options.id}, {label}: {_SAYS[options.verdict]}.", _COLUMNS))
    return _OK


def mute(argv: list[str]) -> int:
    """Leave a finding out of the list until a date. Its time stays in every sum, and the list says how many."""
    parser = _word_parser("findings mute", mute.__doc__, _FINDING)
    parser.add_argument("--until", required=True, metavar="DATE", dest="end", help="2026-12-01, the day included")
    parser.add_argument("--because", required=True, metavar="WHY", help="one sentence; kept with it")
    options = parser.parse_args(argv)
    until = _target_of(options).mute(options.id, options.end, reason_of(options.because), options.since)
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
    return _target_of(options).decide(options.id, word, because, applied, options.since)
