"""The file of charges for finance: exact amounts, no cell a formula; its rows sum to the bill and its corrections."""

import csv
from decimal import Decimal
from io import StringIO

from agent.wire.units import HOUR_MS
from analyzer.finops.charges.report import ChargesReport
from analyzer.finops.charges.text import key_of, name_of
from analyzer.finops.focus.exact import text_of
from analyzer.finops.focus.write import safe_cell

_MICROS = Decimal(1_000_000)


def charge_csv(report: ChargesReport) -> str:
    """Return one row a bearer: what is charged is the chargeback; cost, and what of it was avoidable, the showback.

    Unknown is an empty cell. GPU-hours are rounded to the sixth decimal, money is exact. `corrects` is the month of
    the hours that a correction is of, empty in the rows of the period itself.
    """
    out = StringIO()
    file = csv.writer(out, lineterminator="\n")
    amounts = ("gpu_hours", "currency", "cost", "avoidable", "charged", "difference")
    file.writerow(("period", key_of(report.by), *amounts, "corrects"))
    for one in (*report.lines, *report.corrections):
        micros = (one.cost_micros, one.avoidable_micros, one.charged_micros, one.difference_micros)
        hours = text_of(round(Decimal(one.milliseconds) / HOUR_MS, 6))
        told = ("" if amount is None else text_of(Decimal(amount) / _MICROS) for amount in micros)
        name = safe_cell(name_of(one))
        file.writerow((safe_cell(report.period.label), name, hours, report.currency, *told, one.corrects or ""))
    return out.getvalue()
