"""`gpuledger prices import focus`: the unit prices of a bill as the text of a price file."""

import argparse
import sys
from datetime import UTC, date, datetime
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.focus.read import is_own, read_focus
from analyzer.reconcile.skus import SkuMap
from analyzer.reconcile.unit_prices import price_file, unit_prices


def import_focus(argv: list[str]) -> int:
    """Write what a bill in FOCUS says a GPU-hour costs as a price file, to look over and to copy from.

    Nothing is merged into the site's file. Rows stand for what was billed: by GPU kind, purchase option and time.
    """
    parser = argparse.ArgumentParser(prog="gpuledger prices import focus", description=import_focus.__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="the bill: FOCUS 1.0 to 1.4, CSV or Parquet")
    parser.add_argument("--map", type=Path, metavar="FILE", help="which lines are which GPUs (docs/focus.md)")
    parser.add_argument("--as-of", type=_day, metavar="DAY", help="when the bill was made (default: today)")
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
    _write(price_file(found), options.out)
    return 0


def _write(text: str, out: Path | None) -> None:
    if out is None:
        print(text, end="")
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{out} is there already, and is not written over; name a new file") from error
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror}") from error


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no day such as 2026-11-01") from error
