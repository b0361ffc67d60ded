"""`gpuledger bill prices`: what the price book is, what is wrong with it, a draft of one, and prices of catalogs."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from analyzer.errors import ConfigError
from analyzer.finops.charges.closing import Edited, edited_words
from analyzer.interfaces.cli.command import ParserOfOnce, asking, report_of
from analyzer.interfaces.questions.money_questions import NO_FILE, book_text, check_data, check_text, checked
from analyzer.interfaces.questions.question import head_of
from analyzer.ledger.believed import believing
from analyzer.ledger.teams import TeamBook
from analyzer.prices.catalogues import (
    GPUHUNT,
    SKYPILOT,
    Catalogue,
    Dating,
    LeftOutError,
    Offer,
    chosen_offers,
    day,
    name_of,
    price_file,
    read_gpuhunt,
    read_skypilot,
    write_new,
)
from analyzer.prices.listing import price_json
from analyzer.prices.price_book import PriceBook
from analyzer.reports.request import Format, Request
from analyzer.settings.settings import Settings, site_of
from analyzer.text.as_json import as_json
from analyzer.text.words import counted
from collector.config import SETTINGS_NAME, CollectorConfig
from collector.store.database import open_for_command


def _add_money(parser: argparse.ArgumentParser) -> None:
    """Add what says where the prices and the ledger are."""
    parser.add_argument("period", nargs="?", metavar="PERIOD", help="2026-W46, 2026-11, 7d, … (default: the last week)")
    parser.add_argument("--prices", type=Path, help="the site's price file (default: the one that the settings name)")
    parser.add_argument("--config", type=Path, help=f"the settings (default: {SETTINGS_NAME} beside --store, or here)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    where.add_argument("--server", metavar="URL", help="ask a running server (its token: GPULEDGER_TOKEN)")
    parser.add_argument("--json", action="store_true", help="for machines: amounts are exact integers")


@contextmanager
def _asking_money(options: argparse.Namespace) -> Iterator[Callable[[Request], str]]:
    """Yield what answers the requests of one of these commands, a store or a server.

    Raises:
        ConfigError: a file is missing or wrong, or the prices are in another currency than the ledger.
        LedgerError: the ledger has nothing of it, or the server does not answer.
    """
    if options.server and (options.prices or options.config):
        raise ConfigError("--prices and --config are for this machine: a server answers by its own files")
    with asking(options) as ask:
        yield ask


_CHECK_FAILED = 1


def prices(argv: list[str]) -> int:
    """List the prices that are known, or check them. Return 1 where the check finds a fault."""
    parser = argparse.ArgumentParser(
        prog="gpuledger bill prices",
        description="What a GPU-hour costs here, and who says so.",
        epilog="See also: gpuledger bill charges, gpuledger bill costs, gpuledger bill prices import.",
    )
    parser.add_argument("action", nargs="?", choices=["list", "check"], default="list")
    parser.add_argument("--prices", type=Path, help="the site's price file (default: the one that the settings name)")
    parser.add_argument("--config", type=Path, help=f"the settings (default: {SETTINGS_NAME} beside --store, or here)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--store", type=Path, help="check: the store (default: from the settings)")
    where.add_argument("--server", metavar="URL", help="those of a running server (its token: GPULEDGER_TOKEN)")
    parser.add_argument("--sku", help="only SKUs that begin so: H100")
    parser.add_argument("--all", action="store_true", help="list every list price, estimates and doubtful rows too")
    parser.add_argument("--json", action="store_true", help="for machines: integers are millionths of the currency")
    options = parser.parse_args(argv)
    if options.server:
        return _from_server(options)
    config, settings = site_of(options.store, options.config)
    path, now_us = options.prices or settings.prices, time.time_ns() // 1000
    book = PriceBook.read(path) if path else PriceBook()
    if options.action == "check":
        return _check(book, options, config, settings, now_us)
    if options.json:
        print(as_json("prices", price_json(book, options.sku, now_us), head_of(settings)), end="")
    else:
        print(book_text(book, str(path) if path else NO_FILE, options.sku, now_us, everything=options.all), end="")
    return 0


def teams(argv: list[str]) -> int:
    """List the runs of a store that map to no team. Return 1 where there are any."""
    from analyzer.interfaces.onboarding.runs import unmapped_runs  # it brings pyarrow

    parser = argparse.ArgumentParser(
        prog="gpuledger bill teams", description="Whose a run is, by the rules of teams.toml."
    )
    parser.add_argument("action", choices=["check"])
    parser.add_argument("--store", type=Path, help="the store whose runs are checked (default: from the settings)")
    parser.add_argument("--teams", type=Path, help="the rules (default: the file that the settings name)")
    parser.add_argument("--config", type=Path, help=f"the settings (default: {SETTINGS_NAME} beside --store)")
    options = parser.parse_args(argv)
    config, settings = site_of(options.store, options.config)
    path = options.teams or settings.teams
    book = TeamBook.read(path) if path else TeamBook()
    with open_for_command(config, read_only=True) as store, believing(store) as session:
        mapped, groups = unmapped_runs(session, book)
    unmapped = sum(group.runs for group in groups)
    print(f"{mapped} runs map to a team, {unmapped} to none   ({path or 'no teams file'})")
    for group in groups:
        print(f"  {counted(group.runs, 'run')}  {group.what}   for example {group.example}")
    return _CHECK_FAILED if groups else 0


def _check(
    book: PriceBook, options: argparse.Namespace, config: CollectorConfig, settings: Settings, now_us: int
) -> int:
    held = options.store is not None or config.store.exists()
    if held:
        with open_for_command(config, read_only=True) as store, believing(store) as session:
            found = checked(book, settings, now_us, session)
    else:
        found = checked(book, settings, now_us)
    told = (
        as_json("prices-check", check_data(book, found), head_of(settings)) if options.json else check_text(book, found)
    )
    print(told, end="")
    if not held:
        words = f"not checked: whether a GPU has no price; there is no store at {config.store} (--store names it)"
        print(words, file=sys.stderr)
    return _CHECK_FAILED if found else 0


def _from_server(options: argparse.Namespace) -> int:
    """Print what a server says by its own price file, fleet and ledger.

    Raises:
        ConfigError: something of this machine was named beside it.
        LedgerError: the server does not answer, or refuses.
    """
    is_check = options.action == "check"
    request = Request("prices-check" if is_check else "prices", options.sku, everything=options.all)
    with _asking_money(options) as ask:
        print(ask(replace(request, format="json") if options.json else request), end="")
        return _CHECK_FAILED if is_check and report_of(ask, request)["complaints"] else 0


def charges(argv: list[str]) -> int:
    """Print what teams are charged by the price file's [[charge]] rows, beside what their GPU time cost.

    What was learned in the period of hours that had closed stands below as corrections, by the month that they correct.
    """
    parser = argparse.ArgumentParser(prog="gpuledger bill charges", description=charges.__doc__)
    _add_money(parser)
    parser.add_argument("--by", choices=("team", "cost-centre"), default="team", help="who bears it (default: team)")
    parser.add_argument("--csv", action="store_true", help="the file for finance: cost, avoidable, charged, difference")
    options = parser.parse_args(argv)
    form: Format = "csv" if options.csv else "json" if options.json else "text"
    request = Request("charges", since=options.period, format=form, ascii=True, by=options.by)
    with _asking_money(options) as ask:
        print(ask(request), end="")
        if options.csv:
            _note(report_of(ask, request))
    return 0


def _note(report: Mapping[str, Any]) -> None:
    """Say beside the file what is not in it: it goes to finance, and every row of it is a bearer."""
    hours, label = report["hours"], report["period"]["label"]
    if hours["known"] < hours["expected"]:
        print(f"only {hours['known']:,} of {hours['expected']:,} hours of {label} are in the ledger", file=sys.stderr)
    if report["repriced"] is not None:
        print("prices changed after hours of it were booked; run gpuledger admin analyze", file=sys.stderr)
    if report["edited"] is not None:
        print("; ".join(edited_words(Edited(**report["edited"]))), file=sys.stderr)


def costs(argv: list[str]) -> int:
    """Print energy and carbon, network, storage, checkpoints and hosts of a period, each beside the ledger."""
    parser = argparse.ArgumentParser(prog="gpuledger bill costs", description=costs.__doc__)
    _add_money(parser)
    options = parser.parse_args(argv)
    form: Format = "json" if options.json else "text"
    with _asking_money(options) as ask:
        print(ask(Request("costs", since=options.period, format=form, ascii=True)), end="")
    return 0


_FORMS = {"skypilot": (SKYPILOT, read_skypilot), "gpuhunt": (GPUHUNT, read_gpuhunt)}


def bring(argv: list[str]) -> int:
    """Write rows of a price catalogue as a price file, to look over and to copy from.

    The catalogue is a file that was fetched before: nothing here calls out. No price is merged into the site's file,
    and where a GPU has several prices the one that is paid must be named.
    """
    options = _parser().parse_args(argv)
    source, read = _FORMS[options.form]
    catalogue = read(options.file)
    offers = [offer for offer in catalogue.offers if _wanted(offer, options)]
    dating = Dating(
        _name(options.provider, "--provider"),
        source,
        _name(options.version, "--version"),
        options.as_of,
        options.starts or options.as_of,
        options.until,
        options.node_group and _name(options.node_group, "--node-group"),
    )
    if options.spot and options.until is None:
        raise ConfigError(
            "--spot needs --until: a catalogue has one reading of a spot price, which must not go on for ever"
        )
    _tell(catalogue, options)
    if not offers:
        raise ConfigError(f"{options.file} has no such offer{_near(catalogue)}")
    text = price_file(chosen_offers(offers), dating)
    if options.out is None:
        print(text, end="")
    else:
        write_new(text, options.out)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = ParserOfOnce(prog="gpuledger bill prices import", description=bring.__doc__)
    parser.add_argument("form", choices=sorted(_FORMS), help="whose catalogue it is")
    parser.add_argument("file", type=Path, metavar="FILE", help="the catalogue, a CSV")
    parser.add_argument(
        "--provider", required=True, metavar="NAME", help="whose prices they are: the file does not say"
    )
    parser.add_argument("--version", required=True, metavar="V", help="of the catalogue: a commit, or its date")
    parser.add_argument("--as-of", required=True, type=day, metavar="DAY", help="when it was made: 2026-11-01")
    parser.add_argument(
        "--from", dest="starts", type=day, metavar="DAY", help="from when it is paid (default: --as-of)"
    )
    parser.add_argument("--until", type=day, metavar="DAY", help="up to when, exclusive (default: further notice)")
    parser.add_argument("--region", metavar="NAME", help="only this region or zone")
    parser.add_argument("--instance-type", metavar="NAME", help="only this instance type")
    parser.add_argument("--sku", action="append", metavar="SKU", help="only this GPU, as H100-80GB; may be repeated")
    parser.add_argument("--node-group", metavar="NAME", help="the rows hold for these nodes alone")
    parser.add_argument("--spot", action="store_true", help="spot prices instead, as of that day; needs --until")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write a new file (default: to standard output)")
    return parser


def _wanted(offer: Offer, options: argparse.Namespace) -> bool:
    return (
        offer.purchase_option == ("spot" if options.spot else "on_demand")
        and options.region in (None, offer.region, offer.zone)
        and options.instance_type in (None, offer.instance_type)
        and (not options.sku or offer.sku.casefold() in {sku.casefold() for sku in options.sku})
    )


def _tell(catalogue: Catalogue, options: argparse.Namespace) -> None:
    """Say on standard error what is not in the rows: it must not be in the file, and not be silent either."""
    for reason, count in sorted(catalogue.left_out.items()):
        print(f"left out: {count:,} {'row' if count == 1 else 'rows'}, {reason}", file=sys.stderr)
    spot = sum(offer.purchase_option == "spot" for offer in catalogue.offers)
    if spot and not options.spot:
        sentence = "spot prices as of one moment; keep a series ([[spot]]), or ask for them by --spot"
        print(f"left out: {spot:,} {sentence}", file=sys.stderr)


def _near(catalogue: Catalogue) -> str:
    skus = sorted({offer.sku for offer in catalogue.offers})
    return f"; it has {', '.join(skus[:12])}{' and more' if len(skus) > 12 else ''}" if skus else ""


def _name(text: str, what: str) -> str:
    try:
        return name_of(text, "name")
    except LeftOutError as error:
        raise ConfigError(f"{what} {text!r} is not a valid name") from error
