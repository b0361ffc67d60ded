"""Amounts as the API gives them: exact, and rounded for people the way that every report rounds."""

from collections.abc import Sequence

from agent.wire.units import HOUR_MS, MICROS
from analyzer.interfaces.api.model import Amounts, Shown
from analyzer.text.rounding import apportion, nearest
from analyzer.text.words import decimal, hours_decimals, money_decimals, symbol

Triple = tuple[int, int | None, int]  # milliseconds, cost in micros, milliseconds without a price


class Rounding:
    """How one document's amounts are rounded: to the decimals that its total is shown with."""

    def __init__(self, total: Triple, currency: str) -> None:
        self.total = total
        self.hour_decimals = hours_decimals(total[0])
        self.cost_decimals = money_decimals(total[1])
        self._sign = symbol(currency)

    @property
    def hours(self) -> tuple[int, int, int]:
        """What GPU-hours are: the total in units that are shown, by what milliseconds are multiplied and divided."""
        factor = 10**self.hour_decimals
        return nearest(self.total[0] * factor, HOUR_MS), factor, HOUR_MS

    @property
    def costs(self) -> tuple[int, int, int]:
        """The same of money."""
        factor = 10**self.cost_decimals
        return nearest((self.total[1] or 0) * factor, MICROS), factor, MICROS

    def whole(self) -> Amounts:
        """Return the total."""
        return self.amounts(self.total, self.hours[0], None if self.total[1] is None else self.costs[0])

    def amounts(self, exact: Triple, hours: int, cost: int | None) -> Amounts:
        """Return an amount whose rounded figures are known."""
        milliseconds, micros, unpriced = exact
        return Amounts(
            milliseconds=milliseconds,
            cost_micros=micros,
            unpriced_milliseconds=unpriced,
            display=Shown(gpu_hours=decimal(hours, self.hour_decimals), cost=self._money(cost)),
        )

    def parts(self, exact: Sequence[Triple], hours: int, cost: int | None) -> list[Amounts]:
        """Return the parts of an amount whose rounded figures are known; as shown, they sum to it."""
        (_, by_hours, per_hour), (_, by_cost, per_cost) = self.hours, self.costs
        in_hours = apportion(hours, [part[0] * by_hours for part in exact], per_hour)
        in_money = apportion(cost or 0, [(part[1] or 0) * by_cost for part in exact], per_cost)
        shown = [None if part[1] is None else money for part, money in zip(exact, in_money, strict=True)]
        return [self.amounts(*triple) for triple in zip(exact, in_hours, shown, strict=True)]

    def _money(self, units: int | None) -> str | None:
        if units is None:
            return None
        return f"{'-' if units < 0 else ''}{self._sign}{decimal(abs(units), self.cost_decimals)}"
