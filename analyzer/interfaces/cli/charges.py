"""`gpuledger bill charges`: what teams are charged, and what is left to the platform."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from analyzer.finops.charges.closing import Edited, edited_words
from analyzer.interfaces.cli.command import report_of
from analyzer.interfaces.cli.prices_asked import add_money, asking_money
from analyzer.reports.request import Format, Request


def charges(argv: list[str]) -> int:
    """Print what teams are charged by the price file's [[charge]] rows, beside what their GPU time cost.

    What was learned in the period of hours that had closed stands below as corrections, by the month that they correct.
    """
    parser = argparse.ArgumentParser(prog="gpuledger bill charges", description=charges.__doc__)
    add_money(parser)
    parser.add_argument("--by", choices=("team", "cost-centre"), default="team", help="who bears it (default: team)")
    parser.add_argument("--csv", action="store_true", help="the file for finance: cost, avoidable, charged, difference")
    options = parser.parse_args(argv)
    form: Format = "csv" if options.csv else "json" if options.json else "text"
    request = Request("charges", since=options.period, format=form, ascii=True, by=options.by)
    with asking_money(options) as ask:
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
