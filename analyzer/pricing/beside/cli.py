"""`gpuledger prices costs`: what a period cost besides GPUs."""

import argparse
import json

from analyzer.pricing.asked import add_money, asked
from analyzer.pricing.beside.reading import read_costs
from analyzer.pricing.beside.text import costs_json, costs_text
from analyzer.report.paper import Paper


def costs(argv: list[str]) -> int:
    """Print energy and carbon, network, storage, checkpoints and hosts of a period, each beside the ledger."""
    parser = argparse.ArgumentParser(prog="gpuledger prices costs", description=costs.__doc__)
    add_money(parser)
    options = parser.parse_args(argv)
    with asked(options) as found:
        period, settings, book = found.reader.period(options.period), found.settings, found.book
        session, currency = found.reader.session, settings.currency
        read = read_costs(session, period, book.beside, book.beside_version, currency, settings.tariff_book())
    print(json.dumps(costs_json(read), indent=1) if options.json else costs_text(read, Paper(ascii=True)), end="")
    return 0
