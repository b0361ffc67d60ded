"""`gpuledger prices` and `gpuledger teams`: what is known of money and of whose a run is."""

import argparse
import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from analyzer.config import BESIDE, Settings
from analyzer.pricing.book import PriceBook
from analyzer.pricing.checking.check import complaints
from analyzer.pricing.checking.complaint import Complaint
from analyzer.pricing.checking.fleet import Booked, Owned, booked_kinds, owned_kinds
from analyzer.pricing.listing import PAPER, beside_lines, book_lines, hint_lines, list_lines, price_json
from analyzer.report.words import counted
from analyzer.teams import TeamBook
from analyzer.unmapped import unmapped_runs
from collector.config import load
from collector.store.database import Store

CHECK_FAILED = 1


def prices(argv: list[str]) -> int:
    """List the prices that are known, or check them. Return 1 where the check finds a fault."""
    parser = argparse.ArgumentParser(
        prog="gpuledger prices",
        description="What a GPU-hour costs here, and who says so.",
        epilog="See also: gpuledger prices charges, gpuledger prices costs, gpuledger prices import.",
    )
    parser.add_argument("action", nargs="?", choices=["list", "check"], default="list")
    parser.add_argument("--prices", type=Path, help="the site's price file (default: the one that the settings name)")
    parser.add_argument("--config", type=Path, help=f"the settings (default: {BESIDE} beside --store, or here)")
    parser.add_argument("--store", type=Path, help="check: the store (default: from the settings)")
    parser.add_argument("--sku", help="only SKUs that begin so: H100")
    parser.add_argument("--all", action="store_true", help="list every list price, estimates and doubtful rows too")
    parser.add_argument("--json", action="store_true", help="for machines: integers are millionths of the currency")
    options = parser.parse_args(argv)
    settings = _settings(options)
    path, now = options.prices or settings.prices, datetime.now(UTC)
    book = PriceBook.read(path) if path else PriceBook()
    if options.action == "check":
        return _check(book, options, settings, now)
    if options.json:
        print(json.dumps(price_json(book, options.sku, _micros(now)), indent=1))
        return 0
    where = str(path) if path else "no price file: costs are not shown"
    lines = [*book_lines(book, where, options.sku, _micros(now)), "", *beside_lines(book), *hint_lines(options.sku)]
    if options.all:
        lines += ["", *list_lines(options.sku)]
    print("\n".join(lines))
    return 0


def teams(argv: list[str]) -> int:
    """List the runs of a store that map to no team. Return 1 where there are any."""
    parser = argparse.ArgumentParser(prog="gpuledger teams", description="Whose a run is, by the rules of teams.toml.")
    parser.add_argument("action", choices=["check"])
    parser.add_argument("--store", type=Path, help="the store whose runs are checked (default: from the settings)")
    parser.add_argument("--teams", type=Path, help="the rules (default: the file that the settings name)")
    parser.add_argument("--config", type=Path, help=f"the settings (default: {BESIDE} beside --store)")
    options = parser.parse_args(argv)
    path = options.teams or _settings(options).teams
    book = TeamBook.read(path) if path else TeamBook()
    with Store.open(_store(options), read_only=True) as store, store.session() as session:
        mapped, groups = unmapped_runs(session, book)
    unmapped = sum(group.runs for group in groups)
    print(f"{mapped} runs map to a team, {unmapped} to none   ({path or 'no teams file'})")
    for group in groups:
        print(f"  {group.runs:>6} {'run ' if group.runs == 1 else 'runs'}  {group.what}   for example {group.example}")
    return CHECK_FAILED if groups else 0


def _check(book: PriceBook, options: argparse.Namespace, settings: Settings, now: datetime) -> int:
    fleet, booked = list[Owned](), list[Booked]()
    path = _store(options)
    held = options.store is not None or path.exists()
    if held:
        with Store.open(path, read_only=True) as store, store.session() as session:
            fleet, booked = owned_kinds(session, _micros(now)), booked_kinds(session)
    teams = {rule.team.name for rule in settings.team_book().rules} if settings.teams and book.charges else None
    found = complaints(book, fleet, now.date(), teams, booked)
    if options.json:
        print(json.dumps({"version": 1, "complaints": [asdict(one) for one in found]}, indent=1))
    elif found:
        print("\n".join(line for one in found for line in _lines(one)))
    else:
        print(f"{counted(len(book.rows) + len(book.derived), 'price')}: none stale, missing or suspicious")
    if not held:
        words = f"not checked: whether a GPU has no price; there is no store at {path} (--store names it)"
        print(words, file=sys.stderr)
    return CHECK_FAILED if found else 0


def _store(options: argparse.Namespace) -> Path:
    """Return the store that was named, or the one of the settings."""
    return Path(options.store or load(options.config, os.environ).store)


def _micros(moment: datetime) -> int:
    return int(moment.timestamp() * 1e6)


def _lines(complaint: Complaint) -> list[str]:
    return PAPER.wrap(complaint.sentence, f"{complaint.kind:<10} ", " " * 11)


def _settings(options: argparse.Namespace) -> Settings:
    """Return the settings that were named, else those beside the store, else those here, else the defaults."""
    if options.config is not None:
        return Settings.read(options.config)
    return Settings.beside(options.store or Path("gpuledger.duckdb"))
