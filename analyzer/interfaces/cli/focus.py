"""`gpuledger bill focus` and `gpuledger bill csv`: the ledger as files for finance."""

import argparse
import os
import sys
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.finops.charges.closing import edited, edited_words
from analyzer.finops.focus.columns import VERSIONS, Issuer
from analyzer.finops.focus.export import Exported, ExportOptions, export_csv, export_focus
from analyzer.finops.focus.rows import hours_of
from analyzer.ledger.believed import believing
from analyzer.ledger.coverage import ledger_end
from analyzer.period import Calendar, Period
from analyzer.settings.settings import Settings, settings_file
from analyzer.text.words import dollars
from collector.config import load
from collector.store.database import Store
from collector.store.session import Session

_OK = 0


def focus(argv: list[str]) -> int:
    """The ledger as a bill in FOCUS, the FinOps Foundation's format: a row a charge, sums exact to the millionth."""
    parser = _parser("bill focus", focus.__doc__)
    parser.add_argument("--version", choices=VERSIONS, default="1.2", help="of FOCUS (default: 1.2)")
    parser.add_argument("--format", choices=("csv", "parquet"), default="csv", help="default: csv")
    parser.add_argument("--by", choices=("day", "hour"), default="day", help="how long a charge is (default: day)")
    parser.add_argument("--provider", metavar="NAME", help="who the bill is from (default: the fleet's name)")
    parser.add_argument("--account", metavar="NAME", help="the billing account (default: the fleet's name)")
    parser.add_argument(
        "--leave-out-unpriced", action="store_true", help="leave GPU time without a price out, and say how much it is"
    )
    parser.add_argument("--energy", action="store_true", help="add what the GPUs drew")
    options = parser.parse_args(argv)
    path, settings = _where(options)
    with Store.open(path, read_only=True) as store, believing(store) as session:
        period = _period(session, settings, options)
        provider, account = options.provider or settings.cluster, options.account or settings.cluster
        issuer = Issuer(options.version, provider, account, settings.currency, period.timezone)
        asked = ExportOptions(
            issuer, period, options.by == "hour", options.format, options.leave_out_unpriced, options.energy
        )
        done = export_focus(session, asked, options.out)
        later = edited_words(edited(session, period, settings))
    print("\n".join([*_said(done, asked, options.out), *later]), file=sys.stderr)
    return _OK


def csv(argv: list[str]) -> int:
    """The ledger's rows by day, team, run and state, for a spreadsheet."""
    parser = _parser("bill csv", csv.__doc__)
    options = parser.parse_args(argv)
    path, settings = _where(options)
    with Store.open(path, read_only=True) as store, believing(store) as session:
        period = _period(session, settings, options)
        count = export_csv(session, period, settings.currency, options.out)
        later = edited_words(edited(session, period, settings))
    print("\n".join([f"{options.out}: {count:,} rows of {period.label}", *later]), file=sys.stderr)
    return _OK


def _parser(name: str, about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"gpuledger {name}", description=about)
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--month", metavar="YYYY-MM", help="a month by the site's clock, such as 2026-11")
    when.add_argument("--since", metavar="WHEN", help="7d, monday, 2026-11-09, 2026-W46")
    parser.add_argument("--until", metavar="WHEN", help="the end; a day or a week is included")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the file to write")
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")
    return parser


def _where(options: argparse.Namespace) -> tuple[Path, Settings]:
    path = options.store or load(options.config, os.environ).store
    return path, Settings.read(settings_file(path, options.config))


def _period(session: Session, settings: Settings, options: argparse.Namespace) -> Period:
    calendar = settings.calendar
    now = ledger_end(session)
    if options.month is not None:
        return _month(calendar, options.month, now)
    if options.since is None:
        raise ConfigError("say which month (--month 2026-11), or from when (--since)")
    return calendar.span(options.since, options.until, now)


def _month(calendar: Calendar, text: str, now: int) -> Period:
    """Return a month by the site's clock.

    Raises:
        ConfigError: it names no month.
    """
    try:
        first = date.fromisoformat(f"{text}-01")
    except ValueError as error:
        raise ConfigError(f"{text!r} names no month: say --month 2026-11") from error
    last = date(first.year + first.month // 12, first.month % 12 + 1, 1) - timedelta(days=1)
    return replace(calendar.span(first.isoformat(), last.isoformat(), now), label=text)


def _said(done: Exported, asked: ExportOptions, out: Path) -> list[str]:
    currency = asked.issuer.currency
    period = asked.period
    lines = [f"{out}: FOCUS {asked.issuer.version}, {done.rows:,} rows, {currency} {dollars(done.cost_micros)}"]
    settled = f"{period.label}: {done.status}"
    lines.append(settled if done.hours_known >= period.hours else f"{settled}, {done.hours_known} of {period.hours} h")
    if done.adjusted_micros:
        lines.append(f"corrections of what had closed come to {currency} {_signed(done.adjusted_micros)}")
    if done.unpriced_ms:
        lines.append(f"left out: {hours_of(done.unpriced_ms):,.1f} GPU-hours without a price")
    return lines


def _signed(micros: int) -> str:
    return f"-{dollars(-micros)}" if micros < 0 else dollars(micros)
