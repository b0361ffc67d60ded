"""The ledger as files for finance (`gpuledger bill focus` and `csv`), and bills of others held against it."""

import argparse
import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from time import time_ns

from analyzer.errors import ConfigError, LedgerError
from analyzer.finops.charges.closing import edited, edited_words
from analyzer.finops.focus.columns import VERSIONS, Issuer
from analyzer.finops.focus.export import Exported, ExportOptions, export_csv, export_focus
from analyzer.finops.focus.read import digest_of
from analyzer.finops.focus.rows import hours_of
from analyzer.finops.reconcile.bill import Bill
from analyzer.finops.reconcile.compare import Comparison, gathered, name_of, reconcile, reconcile_by_server
from analyzer.finops.reconcile.invoice_matches import InvoiceSource, keep
from analyzer.finops.reconcile.text import ROWS_SHOWN, comparison_data, label_of_compared, notes_text, reconcile_text
from analyzer.finops.reconcile.unit_prices import price_file, unit_prices
from analyzer.interfaces.cli.command import ParserOfOnce, add_place
from analyzer.interfaces.cli.decisions import who
from analyzer.ledger.believed import believing
from analyzer.ledger.coverage import ledger_end, newest_hour_end
from analyzer.period import Calendar, Period
from analyzer.prices.catalogues import day, write_new
from analyzer.settings.settings import Settings, site_of
from analyzer.text.as_json import as_json
from analyzer.text.words import counted, dollars
from collector.config import check_there
from collector.store.books import mirror_findings
from collector.store.database import open_for_command
from collector.store.session import Session

_OK, _DIFFERS = 0, 1


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
    config, settings = site_of(options.store, options.config)
    with open_for_command(config, read_only=True) as store, believing(store) as session:
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
    config, settings = site_of(options.store, options.config)
    with open_for_command(config, read_only=True) as store, believing(store) as session:
        period = _period(session, settings, options)
        count = export_csv(session, period, settings.currency, options.out)
        later = edited_words(edited(session, period, settings))
    print("\n".join([f"{options.out}: {count:,} rows of {period.label}", *later]), file=sys.stderr)
    return _OK


def _parser(name: str, about: str | None) -> argparse.ArgumentParser:
    parser = ParserOfOnce(prog=f"gpuledger {name}", description=about)
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--month", metavar="YYYY-MM", help="a month by the site's clock, such as 2026-11")
    when.add_argument("--since", metavar="WHEN", help="7d, monday, 2026-11-09, 2026-W46")
    parser.add_argument("--until", metavar="WHEN", help="the end; a day or a week is included")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the file to write")
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")
    return parser


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


def prices_reconcile(argv: list[str]) -> int:
    """Hold an invoice (FOCUS, or AWS's, Azure's, Google's or OCI's own) against the ledger, by GPU kind and UTC day.

    What came of it is kept, and reports say it: "invoice matched within 0.4%". Exit code 1 where they do not match.
    """
    parser = ParserOfOnce(prog="gpuledger bill reconcile", description=prices_reconcile.__doc__)
    parser.add_argument(
        "--invoice",
        type=Path,
        nargs="+",
        action="extend",
        required=True,
        metavar="FILE",
        help="the files of the invoice: FOCUS or the provider's own, CSV or lines of JSON (.gz too) or Parquet",
    )
    _add_map(parser)
    parser.add_argument("--since", metavar="WHEN", help="a UTC day or week (default: the invoice's first day)")
    parser.add_argument("--until", metavar="WHEN", help="the end; a day or a week is included")
    parser.add_argument("--dry-run", action="store_true", help="only show it, and keep nothing")
    parser.add_argument("--top", type=int, default=ROWS_SHOWN, metavar="N", help="maximum number of rows")
    parser.add_argument("--json", action="store_true", help="for machines: integers are millionths of the currency")
    add_place(parser, server="a server that runs on it (its key: GPULEDGER_TOKEN)")
    options = parser.parse_args(argv)
    if options.server:
        return _by_server(options)
    compared, bill = _on_store(options)
    name = name_of(options.invoice)
    if options.json:
        sys.stdout.write(as_json("reconcile", comparison_data(compared, bill, name)))
    else:
        sys.stdout.write(reconcile_text(compared, bill, name, options.top))
    return _OK if compared.matched else _DIFFERS


def _by_server(options: argparse.Namespace) -> int:
    if options.config:
        raise ConfigError("--config is for this machine: a server answers by its own settings")
    spoken = (options.since, options.until)
    told, bill = reconcile_by_server(
        options.server, options.invoice, options.map, spoken, not options.dry_run, options.top
    )
    try:
        sys.stdout.write(as_json("reconcile", told["report"]) if options.json else told["text"])
        print(*notes_text(bill)[1:], sep="\n", end="", file=sys.stderr)  # the server was sent sums alone
        return _OK if told["matched"] else _DIFFERS
    except (KeyError, TypeError) as error:
        raise LedgerError(f"{options.server} does not answer as gpuledger does") from error


def _on_store(options: argparse.Namespace) -> tuple[Comparison, Bill]:
    config, settings = site_of(options.store, options.config)
    check_there(config)
    with open_for_command(config, read_only=options.dry_run) as store:
        with believing(store) as session:
            start = end = None
            if options.since is not None or options.until is not None:
                span = Calendar("UTC").span(options.since, options.until, newest_hour_end(session) or 0)
                start, end = span.start, span.end
            compared, bill = reconcile(session, options.invoice, options.map, settings.currency, (start, end))
            if not options.dry_run:
                told = InvoiceSource(name_of(options.invoice), digest_of(*options.invoice), who(), time_ns() // 1000)
                keep(session, compared, bill, label_of_compared(compared), told)
        if not options.dry_run:
            mirror_findings(store)
    return compared, bill


def import_focus(argv: list[str]) -> int:
    """Write what a bill says a GPU-hour costs as a price file, to look over and to copy from.

    Nothing is merged into the site's file. Rows stand for what was billed: by GPU kind, purchase option and time.
    """
    parser = ParserOfOnce(prog="gpuledger bill prices import focus", description=import_focus.__doc__)
    parser.add_argument(
        "file", type=Path, nargs="+", metavar="FILE", help="the files of the bill, as reconcile reads them"
    )
    _add_map(parser)
    parser.add_argument("--as-of", type=day, metavar="DAY", help="when the bill was made (default: today)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write a new file (default: to standard output)")
    options = parser.parse_args(argv)
    as_of = options.as_of or datetime.now(UTC).date()
    name = name_of(options.file)
    bill = gathered(options.file, (), options.map, (None, None))
    try:
        found = unit_prices(bill, f"bill {name}", as_of)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}; a price file has one currency, and each region one provider") from error
    reasons = bill.unpriced if found is not None and found.is_by_fee else bill.unpriced + bill.by_fee
    left_out = "; ".join(f"{counted(lines, 'line')} of GPUs: {why}" for why, lines in reasons.items())
    if found is None:
        raise ConfigError(
            f"{name} has no price of a GPU-hour: say which lines are GPUs with --map FILE (docs/focus.md)"
        )
    if not found.rows:
        raise ConfigError(f"{name} has no price of a GPU-hour: {left_out or 'none of its lines of GPUs has hours'}")
    notes = [*([f"left out: {left_out}"] if left_out else []), *bill.notes]
    if notes:
        print(*notes, sep="\n", file=sys.stderr)
    text = price_file(found)
    if options.out is None:
        print(text, end="")
    else:
        write_new(text, options.out)
    return 0


def _add_map(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--map",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="which lines are which GPUs (docs/focus.md); of several files the first row that fits counts",
    )
