"""`gpuledger bill costs`: what a period cost besides GPUs."""

import argparse

from analyzer.interfaces.cli.prices_asked import add_money, asking_money
from analyzer.reports.request import Format, Request


def costs(argv: list[str]) -> int:
    """Print energy and carbon, network, storage, checkpoints and hosts of a period, each beside the ledger."""
    parser = argparse.ArgumentParser(prog="gpuledger bill costs", description=costs.__doc__)
    add_money(parser)
    options = parser.parse_args(argv)
    form: Format = "json" if options.json else "text"
    with asking_money(options) as ask:
        print(ask(Request("costs", since=options.period, format=form, ascii=True)), end="")
    return 0
