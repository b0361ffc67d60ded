"""Amounts as people read them: GPU-hours and money, rounded from the top down so that every column adds up."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire.units import HOUR_MS, MICROS
from analyzer.text.words import apportion, decimal, hours_decimals, money_decimals, nearest, symbol


@dataclass(frozen=True, slots=True)
class Display:
    """Amounts as people read them, rounded from the top down so that every column adds up."""

    gpu_hours: str
    cost: str | None


class DisplayRounding:
    """How one document's amounts are rounded: to the decimals that its total (milliseconds, micros) is shown with."""

    def __init__(self, milliseconds: int, micros: int | None, currency: str) -> None:
        self._milliseconds, self._micros = milliseconds, micros
        self.hour_decimals = hours_decimals(milliseconds)
        self.cost_decimals = money_decimals(micros)
        self._sign = symbol(currency)

    @property
    def hours(self) -> tuple[int, int, int]:
        """What GPU-hours are: the total in units that are shown, by what milliseconds are multiplied and divided."""
        factor = 10**self.hour_decimals
        return nearest(self._milliseconds * factor, HOUR_MS), factor, HOUR_MS

    @property
    def costs(self) -> tuple[int, int, int]:
        """The same of money."""
        factor = 10**self.cost_decimals
        return nearest((self._micros or 0) * factor, MICROS), factor, MICROS

    def apportioned(
        self, exact: Sequence[tuple[int, int | None]], hours: int, cost: int | None
    ) -> list[tuple[int, int | None]]:
        """Return the rounded figures of the parts of an amount whose own are known: they sum to those."""
        (_, by_hours, per_hour), (_, by_cost, per_cost) = self.hours, self.costs
        in_hours = apportion(hours, [part[0] * by_hours for part in exact], per_hour)
        in_money = apportion(cost or 0, [(part[1] or 0) * by_cost for part in exact], per_cost)
        shown = [None if part[1] is None else money for part, money in zip(exact, in_money, strict=True)]
        return list(zip(in_hours, shown, strict=True))

    def display(self, hours: int, cost: int | None) -> Display:
        """Return rounded figures in words."""
        return Display(decimal(hours, self.hour_decimals), self._money(cost))

    def _money(self, units: int | None) -> str | None:
        if units is None:
            return None
        return f"{'-' if units < 0 else ''}{self._sign}{decimal(abs(units), self.cost_decimals)}"


def displays(exact: Sequence[tuple[int, int | None]], currency: str) -> list[Display]:
    """Return milliseconds and micros of one list in words: as printed, they sum to the printed sum of the list."""
    priced = [micros for _, micros in exact if micros is not None]
    rounding = DisplayRounding(sum(part[0] for part in exact), sum(priced) if priced else None, currency)
    return [rounding.display(*part) for part in rounding.apportioned(exact, rounding.hours[0], rounding.costs[0])]
