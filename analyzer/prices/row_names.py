"""What a row of the price file is called where somebody is told of it."""

from analyzer.prices.money import dollars
from analyzer.prices.options import ANY
from analyzer.prices.site import Derived, PriceRow


def place_of(row: PriceRow | Derived) -> str:
    """Return where a row says that it holds: "in rack-1, aws us-east-1"; empty where it does not."""
    *_, node_group = row.subject
    named = " ".join(part for part in row.place if part)
    told = ", ".join(part for part in (node_group, named) if part)
    return f"in {told}" if told else ""


def name_of(row: PriceRow | Derived, micros: int | None) -> str:
    """Return a row with its price: "H100-80GB (spot) in rack-1 at 2.60"; `micros` None leaves the price out."""
    sku, option, _ = row.subject
    where = f" {place}" if (place := place_of(row)) else ""
    return f"{sku or 'any GPU'} ({option or ANY}){where}" + (f" at {dollars(micros)}" if micros is not None else "")
