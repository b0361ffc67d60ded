"""`gpuledger prices charges`: what teams are charged, and what is left to the platform."""

import argparse
import json
import sys

from analyzer.errors import LedgerError
from analyzer.pricing.asked import add_money, asked
from analyzer.pricing.charging.reading import booked_hours, read_held
from analyzer.pricing.charging.sums import By
from analyzer.pricing.charging.sums import charges as charges_of
from analyzer.pricing.charging.text import charge_json, charge_lines


def charges(argv: list[str]) -> int:
    """Print what teams are charged by the price file's [[charge]] rows, beside what their GPU time cost."""
    parser = argparse.ArgumentParser(prog="gpuledger prices charges", description=charges.__doc__)
    add_money(parser)
    parser.add_argument("--by", choices=("team", "cost-centre"), default="team", help="who bears it (default: team)")
    parser.add_argument("--csv", action="store_true", help="the file for finance: cost, avoidable, charged, difference")
    options = parser.parse_args(argv)
    by: By = "team" if options.by == "team" else "cost_centre"
    with asked(options) as found:
        period = found.reader.period(options.period)
        hours = booked_hours(found.reader.session, period)
        if not hours:
            raise LedgerError(f"the ledger has no hour of {period.label}; gpuledger analyze books what is there")
        lines = charges_of(read_held(found.reader.session, period), found.book.charges, by)
    currency = found.settings.currency
    if options.csv:
        from analyzer.pricing.charging.file import charge_csv  # loads what writes bills

        print(charge_csv(lines, period, currency, by), end="")
    elif options.json:
        print(json.dumps(charge_json(lines, period, currency, by), indent=1))
    else:
        print("\n".join(charge_lines(lines, period, currency, len(found.book.charges), by)))
    if hours < period.hours:
        # Beside what is printed and not in it: the file goes to finance, whose every row is a bearer.
        print(f"only {hours:,} of {period.hours:,} hours of {period.label} are in the ledger", file=sys.stderr)
    return 0
