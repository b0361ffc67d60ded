"""`gpuledger bill prices import`: rows of a catalogue as the text of a price file."""

import argparse
import sys
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.interfaces.cli.command import ParserOfOnce
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
