"""What teams are charged, as people and machines read it."""

from collections.abc import Sequence
from dataclasses import asdict

from analyzer.finops.charges.edited import edited_words
from analyzer.finops.charges.report import ChargesReport
from analyzer.finops.charges.sums import Bearer, Charged
from analyzer.period import local
from analyzer.prices.repriced import repriced_words
from analyzer.text.layout import TextLayout
from analyzer.text.words import UNKNOWN, gpu_hours, money, plain

_NAME, _CELL = 24, 14


def charge_text(report: ChargesReport, layout: TextLayout) -> str:
    """Return the table: GPU-hours, cost, charged and the platform's difference by bearer, their sums, corrections."""
    title = key_of(report.by).replace("_", " ").upper()
    head = f"{title:<{_NAME}}" + "".join(f"{name:>{_CELL}}" for name in ("GPU-hours", "cost", "charged", "difference"))
    total = _total(report.lines)
    found = [f"charges {report.period.label}   {_rates_told(report)}", "", head]
    found += [_line(name_of(one), one, report.currency) for one in report.lines]
    found += [_line("total", total, report.currency), ""]
    for said in (*_sums_told(total, report.currency), *_notes(report)):
        found += layout.wrap(said, "")
    return layout.page([*found, *_corrections(report, layout)])


def _rates_told(report: ChargesReport) -> str:
    rates = report.rates
    if report.closed_at is not None:
        return f"final: teams and charge rates as of {local(report.closed_at, report.period.timezone):%Y-%m-%d}"
    if not rates:
        return "no charge rate: a team is charged what its GPUs cost"
    return (
        f"{rates} charge rates; else a team is charged what its GPUs cost"
        if rates > 1
        else ("one charge rate; else a team is charged what its GPUs cost")
    )


def _sums_told(total: Charged, currency: str) -> list[str]:
    difference = total.difference_micros
    if difference is None:
        return [f"{UNKNOWN}: some of it has no price; gpuledger prices check names what is missing"]
    who = "the platform bears" if difference >= 0 else "the platform is left with"
    charged, bill = money(total.charged_micros, currency), money(total.cost_micros, currency)
    return [
        f"{who} {money(abs(difference), currency)}:",
        f"charged {charged} and {money(difference, currency)} are the bill of {bill}",
    ]


def _notes(report: ChargesReport) -> list[str]:
    known = report.hours
    lacking = f"only {known.known:,} of {known.expected:,} hours of {report.period.label} are in the ledger"
    return [*([] if known.complete else [lacking]), *repriced_words(report.repriced), *edited_words(report.edited)]


def _corrections(report: ChargesReport, layout: TextLayout) -> list[str]:
    """Return what was learned of hours that had closed: beside the bill above, which stays as it was."""
    if not report.corrections:
        return []
    title = f"CORRECTIONS learned in {report.period.label}, of hours that had closed; not in the figures above"
    found = ["", *layout.wrap(title, "")]
    found += [_line(f"{one.corrects} {name_of(one)}", one, report.currency) for one in report.corrections]
    both = _total([*report.lines, *report.corrections])
    return [*found, _line("total with them", both, report.currency)]


def charge_data(report: ChargesReport) -> dict[str, object]:
    """Return the same for machines; amounts are integer millionths."""
    return {
        "period": report.period,
        "currency": report.currency,
        "by": key_of(report.by),
        "hours": {"known": report.hours.known, "expected": report.hours.expected, "status": report.hours.status},
        "repriced": None if report.repriced is None else asdict(report.repriced),
        "closed_at": report.closed_at,
        "edited": None if report.edited is None else asdict(report.edited),
        "charges": [_data(one, report.by) for one in report.lines],
        "corrections": [_data(one, report.by) | {"corrects": one.corrects} for one in report.corrections],
    }


def _data(one: Charged, by: Bearer) -> dict[str, object]:
    return {
        key_of(by): one.bearer,
        **({"team": one.team} if by != "team" else {}),
        "held": one.held,
        "milliseconds": one.milliseconds,
        "cost_micros": one.cost_micros,
        "charged_micros": one.charged_micros,
        "avoidable_micros": one.avoidable_micros,
        "difference_micros": one.difference_micros,
    }


def key_of(by: Bearer) -> str:
    """Return what files and documents call the bearer."""
    return by.replace("-", "_")


def name_of(line: Charged) -> str:
    """Return what people call the line."""
    if not line.held:
        return "nobody (not allocated)"
    if line.bearer is not None:
        return plain(line.bearer)
    return f"no cost centre: {plain(line.team)}" if line.team is not None else "unmapped"


def _line(name: str, one: Charged, currency: str) -> str:
    """Return one row; a name that is too long for its column has a line of its own, and is never cut."""
    cells = (gpu_hours(one.milliseconds), *(money(m, currency) for m in (one.cost_micros, one.charged_micros)))
    difference = money(one.difference_micros, currency)
    head = f"{name:<{_NAME}}" if len(name) < _NAME else f"{name}\n{'':<{_NAME}}"
    return head + "".join(f"{cell:>{_CELL}}" for cell in (*cells, difference))


def _total(lines: Sequence[Charged]) -> Charged:
    return Charged(
        None,
        True,
        sum(one.milliseconds for one in lines),
        _known_sum([one.cost_micros for one in lines]),
        _known_sum([one.charged_micros for one in lines]),
    )


def _known_sum(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
