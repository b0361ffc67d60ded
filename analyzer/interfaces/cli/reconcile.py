"""`gpuledger bill reconcile` and `gpuledger bill prices import focus`: what bills in FOCUS say."""

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns

from analyzer.errors import ConfigError, LedgerError
from analyzer.finops.focus.read import is_own, read_focus
from analyzer.finops.reconcile.bill import Bill, SkuMap
from analyzer.finops.reconcile.compare import Comparison
from analyzer.finops.reconcile.invoice_matches import InvoiceSource, digest_of, keep
from analyzer.finops.reconcile.reconcile import reconcile, reconcile_by_server
from analyzer.finops.reconcile.text import ROWS_SHOWN, comparison_data, label_of, reconcile_text
from analyzer.finops.reconcile.unit_prices import price_file, unit_prices
from analyzer.interfaces.cli.by_command import who
from analyzer.ledger.believed import believing
from analyzer.ledger.coverage import newest_hour_end
from analyzer.period import Calendar
from analyzer.prices.catalogues import day, write_new
from analyzer.settings.settings import Settings, settings_file
from analyzer.text.as_json import as_json
from collector.config import check_there, load
from collector.store.books import mirror_findings
from collector.store.database import Store

_OK, _DIFFERS = 0, 1


def prices_reconcile(argv: list[str]) -> int:
    """Hold an invoice in FOCUS (1.0 to 1.4, CSV or Parquet) against the ledger, by GPU kind and UTC day.

    What came of it is kept, and reports say it: "invoice matched within 0.4 %". Exit code 1 where they do not match.
    """
    parser = argparse.ArgumentParser(prog="gpuledger bill reconcile", description=prices_reconcile.__doc__)
    parser.add_argument(
        "--invoice", type=Path, required=True, metavar="FILE", help="the invoice: FOCUS, CSV or Parquet"
    )
    parser.add_argument("--map", type=Path, metavar="FILE", help="which lines are which GPUs (docs/focus.md)")
    parser.add_argument("--since", metavar="WHEN", help="a UTC day or week (default: the invoice's first day)")
    parser.add_argument("--until", metavar="WHEN", help="the end; a day or a week is included")
    parser.add_argument("--dry-run", action="store_true", help="only show it, and keep nothing")
    parser.add_argument("--top", type=int, default=ROWS_SHOWN, metavar="N", help="at most so many rows")
    parser.add_argument("--json", action="store_true", help="for machines: integers are millionths of the currency")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    where.add_argument("--server", metavar="URL", help="a server that runs on it (its key: GPULEDGER_TOKEN)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")
    options = parser.parse_args(argv)
    if options.server:
        return _by_server(options)
    compared, bill = _on_store(options)
    if options.json:
        sys.stdout.write(as_json("reconcile", comparison_data(compared, bill, options.invoice.name)))
    else:
        sys.stdout.write(reconcile_text(compared, bill, options.invoice.name, options.top))
    return _OK if compared.matched else _DIFFERS


def _by_server(options: argparse.Namespace) -> int:
    if options.config:
        raise ConfigError("--config is for this machine: a server answers by its own settings")
    spoken = (options.since, options.until)
    told = reconcile_by_server(options.server, options.invoice, options.map, spoken, not options.dry_run, options.top)
    try:
        sys.stdout.write(as_json("reconcile", told["report"]) if options.json else told["text"])
        return _OK if told["matched"] else _DIFFERS
    except (KeyError, TypeError) as error:
        raise LedgerError(f"{options.server} does not answer as gpuledger does") from error


def _on_store(options: argparse.Namespace) -> tuple[Comparison, Bill]:
    path = options.store or load(options.config, os.environ).store
    settings = Settings.read(settings_file(path, options.config))
    check_there(path)
    with Store.open(path, read_only=options.dry_run) as store:
        with believing(store) as session:
            start = end = None
            if options.since is not None or options.until is not None:
                span = Calendar("UTC").span(options.since, options.until, newest_hour_end(session) or 0)
                start, end = span.start, span.end
            compared, bill = reconcile(session, options.invoice, options.map, settings.currency, (start, end))
            if not options.dry_run:
                told = InvoiceSource(options.invoice.name, digest_of(options.invoice), who(), time_ns() // 1000)
                keep(session, compared, bill, label_of(compared.start, compared.end), told)
        if not options.dry_run:
            mirror_findings(store)
    return compared, bill


def import_focus(argv: list[str]) -> int:
    """Write what a bill in FOCUS says a GPU-hour costs as a price file, to look over and to copy from.

    Nothing is merged into the site's file. Rows stand for what was billed: by GPU kind, purchase option and time.
    """
    parser = argparse.ArgumentParser(prog="gpuledger bill prices import focus", description=import_focus.__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="the bill: FOCUS 1.0 to 1.4, CSV or Parquet")
    parser.add_argument("--map", type=Path, metavar="FILE", help="which lines are which GPUs (docs/focus.md)")
    parser.add_argument("--as-of", type=day, metavar="DAY", help="when the bill was made (default: today)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write a new file (default: to standard output)")
    options = parser.parse_args(argv)
    if is_own(options.file):
        raise ConfigError(f"{options.file} is an export of gpuledger, and no bill: its prices are the ledger's own")
    as_of = options.as_of or datetime.now(UTC).date()
    try:
        found = unit_prices(read_focus(options.file), SkuMap.of((), options.map), f"bill {options.file.name}", as_of)
    except ValueError as error:
        raise ConfigError(f"{options.file}: {error}; a price file has one currency") from error
    if found is None or not found.rows:
        raise ConfigError(
            f"{options.file} has no price of a GPU-hour: say which lines are GPUs with --map FILE (docs/focus.md)"
        )
    if found.left_out:
        print(f"left out: {found.left_out:,} lines of GPUs that name no hours", file=sys.stderr)
    text = price_file(found)
    if options.out is None:
        print(text, end="")
    else:
        write_new(text, options.out)
    return 0
