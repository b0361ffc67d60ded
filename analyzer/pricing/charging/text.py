"""What teams are charged, as people and machines read it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analyzer.pricing.charging.sums import By, Charged
from analyzer.report.words import UNKNOWN, gpu_hours, money, plain

if TYPE_CHECKING:
    from analyzer.period import Period

NAME, CELL = 24, 14


def charge_lines(lines: Sequence[Charged], period: "Period", currency: str, rates: int, by: By = "team") -> list[str]:
    """Return the table: GPU-hours, cost, charged and the platform's difference by bearer, and their sums."""
    title = by.replace("_", " ").upper()
    head = f"{title:<{NAME}}" + "".join(f"{name:>{CELL}}" for name in ("GPU-hours", "cost", "charged", "difference"))
    total = Charged(
        None,
        True,
        sum(one.milliseconds for one in lines),
        _known_sum([one.cost_micros for one in lines]),
        _known_sum([one.charged_micros for one in lines]),
    )
    said = f"{rates} charge rates" if rates != 1 else "one charge rate"
    found = [f"charges {period.label}   {said}; else a team is charged what its GPUs cost", "", head]
    found += [_line(name_of(one), one, currency) for one in lines]
    found.append(_line("total", total, currency))
    difference = total.difference_micros
    if difference is None:
        found += ["", f"{UNKNOWN}: some of it has no price; gpuledger prices check names what is missing"]
    else:
        who = "the platform bears" if difference >= 0 else "the platform is left with"
        found += [
            "",
            f"{who} {money(abs(difference), currency)}:",
            f"charged {money(total.charged_micros, currency)} and"
            f" {money(difference, currency)} are the bill of {money(total.cost_micros, currency)}",
        ]
    return found


def charge_json(lines: Sequence[Charged], period: "Period", currency: str, by: By = "team") -> dict[str, object]:
    """Return the same for machines; amounts are integer millionths."""
    return {
        "version": 1,
        "period": period.label,
        "currency": currency,
        "charges": [
            {
                by: one.bearer,
                "held": one.held,
                "milliseconds": one.milliseconds,
                "cost_micros": one.cost_micros,
                "charged_micros": one.charged_micros,
                "avoidable_micros": one.avoidable_micros,
                "difference_micros": one.difference_micros,
            }
            for one in lines
        ],
    }


def name_of(line: Charged) -> str:
    """Return what people call the line."""
    if not line.held:
        return "nobody (not allocated)"
    return plain(line.bearer) if line.bearer is not None else "unmapped"


def _line(name: str, one: Charged, currency: str) -> str:
    cells = (gpu_hours(one.milliseconds), *(money(m, currency) for m in (one.cost_micros, one.charged_micros)))
    difference = money(one.difference_micros, currency)
    return f"{name[: NAME - 1]:<{NAME}}" + "".join(f"{cell:>{CELL}}" for cell in (*cells, difference))


def _known_sum(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
