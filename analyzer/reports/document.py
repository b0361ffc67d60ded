"""What every JSON answer is made of: documents with a version, spans and amounts, and how they are shown."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.wire.units import HOUR_MS, MICROS
from analyzer.ledger.coverage import Hours, Measured
from analyzer.period import Period
from analyzer.period import iso as iso
from analyzer.text.rounding import apportion, nearest
from analyzer.text.words import decimal, hours_decimals, money_decimals, symbol

VERSION: Literal[1] = 1

Micros = Annotated[int, Field(description="Microseconds since 1970, UTC.")]
Iso = Annotated[str, Field(description="The same instant, ISO 8601, UTC.", json_schema_extra={"format": "date-time"})]
Milliseconds = Annotated[int, Field(description="GPU time in milliseconds.")]
CostMicros = Annotated[int, Field(description="Millionths of the currency.")]
Class = Literal["useful", "avoidable", "overhead", "spare", "unknown"]
Status = Literal["provisional", "open", "closed", "final"]


def iso_or_none(micros: int | None) -> str | None:
    """Return an instant that may be unknown."""
    return None if micros is None else iso(micros)


class Model(BaseModel):
    """A part of an answer. `_`-ended names are words that Python keeps for itself."""

    model_config = ConfigDict(frozen=True, validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)


class Span(Model):
    """A span of whole hours, half-open: `end` is the first instant that does not belong to it."""

    label: str
    timezone: str
    start: Micros
    start_iso: Iso
    end: Micros
    end_iso: Iso

    @classmethod
    def of(cls, period: Period) -> "Span":
        """Return a period as the API writes it."""
        return cls(
            label=period.label,
            timezone=period.timezone,
            start=period.start,
            start_iso=iso(period.start),
            end=period.end,
            end_iso=iso(period.end),
        )


class Coverage(Model):
    """How much of the period the ledger knows, and how settled the least settled of its hours is."""

    known: int = Field(description="Hours of the period that are in the ledger.")
    expected: int = Field(description="Hours that the period has.")
    status: Status | None
    rules_versions: list[str]
    price_versions: list[str]

    @classmethod
    def of(cls, hours: Hours) -> "Coverage":
        """Return the hours of a period as the API writes them."""
        return cls(
            known=hours.known,
            expected=hours.expected,
            status=hours.status,  # type: ignore[arg-type]  # the ledger's own words
            rules_versions=list(hours.rules_versions),
            price_versions=list(hours.price_versions),
        )


class MeasuredTime(Model):
    """GPU time that runs held, and how much of it nobody measured: of that nothing was found, and nothing ruled out."""

    held_milliseconds: int
    not_measured_milliseconds: int

    @classmethod
    def of(cls, measured: Measured) -> "MeasuredTime":
        """Return what was measured of a period as the API writes it."""
        return cls(held_milliseconds=measured.held, not_measured_milliseconds=measured.silent)


class Shown(Model):
    """Amounts as people read them, rounded from the top down so that every column adds up."""

    gpu_hours: str
    cost: str | None


class Amounts(Model):
    """GPU time and what it cost. `cost_micros` is of the part that has a price, null where no part has one."""

    milliseconds: Milliseconds
    cost_micros: CostMicros | None
    unpriced_milliseconds: Milliseconds = Field(description="The part of the time for which no price is known.")
    display: Shown


class Document(Model):
    """One answer. `generation` changes whenever the ledger does: pages of one listing should have the same."""

    version: Literal[1] = Field(description="Raised when a field goes or changes its meaning; new ones do not.")
    generation: str
    currency: str
    timezone: str = Field(description="The site's: its days and weeks go by it, and people there read times in it.")


class Listing(Document):
    """One page of a listing."""

    next_cursor: str | None = Field(description="Give it back as `cursor` for the next page; null on the last.")


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
