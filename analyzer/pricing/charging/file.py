"""The file of charges for finance: exact amounts, no cell a formula; its rows sum to the bill."""

import csv
from collections.abc import Sequence
from decimal import Decimal
from io import StringIO
from typing import TYPE_CHECKING

from analyzer.focus.exact import text_of
from analyzer.focus.write import safe_cell
from analyzer.pricing.charging.sums import MS_PER_HOUR, By, Charged
from analyzer.pricing.charging.text import name_of

if TYPE_CHECKING:
    from analyzer.period import Period

MICROS = Decimal(1_000_000)


def charge_csv(lines: Sequence[Charged], period: "Period", currency: str, by: By = "team") -> str:
    """Return one row a bearer: what is charged is the chargeback; cost, and what of it was avoidable, the showback.

    Unknown is an empty cell. GPU-hours are rounded to the sixth decimal, money is exact.
    """
    out = StringIO()
    file = csv.writer(out, lineterminator="\n")
    file.writerow(("period", by, "gpu_hours", "currency", "cost", "avoidable", "charged", "difference"))
    for one in lines:
        amounts = (one.cost_micros, one.avoidable_micros, one.charged_micros, one.difference_micros)
        hours = text_of(round(Decimal(one.milliseconds) / MS_PER_HOUR, 6))
        told = ("" if amount is None else text_of(Decimal(amount) / MICROS) for amount in amounts)
        file.writerow((safe_cell(period.label), safe_cell(name_of(one)), hours, currency, *told))
    return out.getvalue()
