"""A reconciliation as text: the answer first, then every kind and day that differs, with its reason."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import UTC, date, datetime

from agent.wire.units import DAY_US
from analyzer.finops.reconcile.bill import Bill, Other
from analyzer.finops.reconcile.compare import Comparison, Difference, Reason
from analyzer.finops.reconcile.gpu_lines import PART_OF_GPU
from analyzer.text.table import CellUnit, TableColumn, paper_lines
from analyzer.text.words import counted, dollars

_CENT = 10_000
_Row = tuple[str, int, int, int | None]  # a GPU kind and day, the ledger, the invoice, and how much more that has
ROWS_SHOWN = 40


def label_of(start: int, end: int) -> str:
    """Return what a span of UTC days is called: a month by its name, a day by its date, else from and to."""
    first, after = _day_of(start), _day_of(end)
    following = date(first.year + first.month // 12, first.month % 12 + 1, 1)
    if first.day == 1 and after == following:
        return f"{first:%Y-%m}"
    last = _day_of(end - 1)
    return f"{first}" if first == last else f"{first} to {last}"


def label_of_compared(compared: Comparison) -> str:
    """Return what was compared, by name: the days that were, and of how many where more were asked for."""
    alone = compared.by_cost_alone
    by_cost = f", {'' if alone == len(compared.counted) else 'in part '}by cost alone" if alone else ""
    priceless = ", in part without prices in the ledger" if compared.without_price else ""
    return label_of(*compared.compared) + _of_how_many(compared) + by_cost + priceless


def _of_how_many(compared: Comparison) -> str:
    asked = -(-(compared.end - compared.start) // DAY_US)
    days = "" if len(compared.days) in (0, asked) else f", {len(compared.days)} of {counted(asked, 'day')}"
    return f"{days}, the first or last day in part" if compared.in_part else days


def _day_of(instant: int) -> date:
    """Return the UTC day of an instant."""
    return datetime.fromtimestamp(instant // 1_000_000, UTC).date()


def answer(compared: Comparison) -> str:
    """Return the one sentence: matched within how much, or why not yet."""
    if compared.foreign:
        others = ", ".join(compared.foreign)
        return f"Not yet matched: the invoice is in {others}, the ledger in {compared.currency}."
    if compared.permille is None:
        return "Not yet matched: there is nothing to compare."
    share = f"{compared.permille // 10}.{compared.permille % 10}%"
    sums = f"{_dollars_of(compared.ledger_micros)} in the ledger, {_dollars_of(compared.invoice_micros)} on the invoice"
    if compared.matched:
        alone, priceless, of_all = compared.by_cost_alone, compared.without_price, f"of {len(compared.counted):,}"
        said = f"Matched within {share}: {sums}."
        if alone:
            said += f" Cost alone was compared of {alone:,} {of_all} kinds and days:"
            said += " their hours on the invoice are not known."
        if priceless:
            said += f" Of {priceless:,} {of_all} kinds and days the ledger has no price of some hours."
        return said
    return f"Not matched: {share} apart; {sums}."


def reconcile_text(compared: Comparison, bill: Bill, name: str, top: int = ROWS_SHOWN) -> str:
    """Return the whole answer; amounts are in the ledger's currency, days in UTC."""
    lines = [
        f"invoice {name}   {label_of(*compared.compared)} UTC{_of_how_many(compared)}, {compared.currency}",
        "",
        f"  {answer(compared)}",
    ]
    apart = [each for each in compared.counted if each.apart_micros >= _CENT or each.is_unpriced]
    lines += [*_table(apart, top), ""]
    same = len(compared.counted) - len(apart)
    if same:
        lines.append(f"  {same} of {len(compared.counted)} kinds and days are equal to the cent.")
    if compared.unseen_ms:
        hours = f"{compared.unseen_ms / 3.6e6:,.1f}"
        lines.append(f"  {hours} GPU-hours are owned, and no agent ever saw these GPUs.")
    lines += _not_counted(each for each in compared.differences if not each.counts)
    lines += _others(bill, compared.currency, top)
    return "\n".join([*lines, *notes_text(bill)]) + "\n"


def notes_text(bill: Bill) -> list[str]:
    """Return how the invoice was read, where somebody must know it."""
    notes = _notes(bill)
    return ["", *(f"  {note}" for note in notes)] if notes else []


def _notes(bill: Bill) -> list[str]:
    untimed = (f"The hours of {counted(lines, 'line')} are not known: {why}." for why, lines in bill.untimed.items())
    return [*bill.notes, *untimed]


def comparison_data(compared: Comparison, bill: Bill, name: str) -> dict[str, object]:
    """Return the same for machines: integers are millionths of the currency, of what is not compared billionths."""
    return {
        "invoice": name,
        "currency": compared.currency,
        "foreign_currencies": compared.foreign,
        "start": compared.start,
        "end": compared.end,
        "label": label_of_compared(compared),
        "days": compared.days,
        "matched": compared.matched,
        "apart_permille": compared.permille,
        "ledger_micros": compared.ledger_micros,
        "invoice_micros": compared.invoice_micros,
        "apart_micros": compared.apart_micros,
        "differences": [{**asdict(each), "micros": each.micros} for each in compared.differences],
        "not_compared": [asdict(other) for other in (*bill.others.values(), *_foreign(bill, compared.currency))],
        "notes": _notes(bill),
    }


def _table(apart: list[Difference], top: int) -> list[str]:
    if not apart:
        return []
    shown = sorted(apart, key=lambda each: (-each.apart_micros, each.day, each.sku))[:top]
    rows = [_row(f"{_day_of(each.day)}  {each.sku}", each.ledger_micros, each.invoice_micros) for each in shown]
    head, *lines = paper_lines(_COLUMNS, rows)
    found = ["", head]
    for each, line in zip(shown, lines, strict=True):
        found += [line, *(f"    {_amount(reason.micros)}{reason.words}" for reason in each.reasons)]
    if len(apart) > len(shown):
        found.append(f"  and {len(apart) - len(shown)} more: --top {len(apart)}")
    return found


def _not_counted(differences: Iterable[Difference]) -> list[str]:
    """Return what cannot agree yet, one line a GPU kind and reason."""
    sums: dict[tuple[str, Reason], list[int]] = {}
    for each in differences:
        found = sums.setdefault((each.sku, replace(each.reasons[0], micros=None)), [0, 0, 0])
        found[0] += 1
        found[1] += each.ledger_micros
        found[2] += each.invoice_micros
    lines = ["", "NOT COUNTED"] if sums else []
    for (sku, reason), (count, ledger, invoice) in sums.items():
        row = _row(f"{sku}, {counted(count, 'day')}", ledger, invoice)
        if reason.kind == "currency":
            row = (*row[:3], None)  # amounts of two currencies have no difference
        lines += [paper_lines(_COLUMNS, [row])[1], f"    {reason.words}"]
    return lines


def _row(name: str, ledger: int, invoice: int) -> _Row:
    return name[:36], ledger, invoice, invoice - ledger


def _amount(micros: int | None) -> str:
    return "" if micros is None else f"{_dollars_of(micros)}: "


def _others(bill: Bill, currency: str, top: int) -> Iterable[str]:
    others = sorted([*bill.others.values(), *_foreign(bill, currency)], key=lambda other: -abs(other.nanos))
    if not others:
        return []
    sums: Counter[str] = Counter()
    for other in others:
        sums[other.currency] += other.nanos
    totals = ", ".join(f"{of} {_dollars_of(sums[of] // 1000)}" for of in sorted(sums))
    lines = ["", f"NOT COMPARED: {counted(len(others), 'kind')} of lines, {totals}"]
    lines += paper_lines(_OTHER_COLUMNS, [(other, currency) for other in others[:top]])
    if len(others) > top:
        lines.append(f"  and {len(others) - top} more kinds")
    if any(other.why in ("no known GPU", PART_OF_GPU) for other in others):
        lines.append("  If GPUs are among them, map them: --map FILE (docs/focus.md).")
    return lines


def _foreign(bill: Bill, currency: str) -> Iterable[Other]:
    """Return GPUs that are billed in other currencies, each sum in its own."""
    found: dict[tuple[str, str], Other] = {}
    for (sku, _, of), billed in bill.days.items():
        if of != currency:
            found.setdefault((sku, of), Other("GPUs in another currency", sku, currency=of)).nanos += billed.nanos
    return found.values()


def _dollars_of(micros: int) -> str:
    """Return an amount to the cent, with its sign."""
    cents = (abs(micros) + _CENT // 2) // _CENT
    text = dollars(cents * _CENT)
    return f"-{text}" if micros < 0 and cents else text


def _other_words(row: tuple[Other, str]) -> str:
    other, currency = row
    name = "".join(letter if letter.isprintable() else " " for letter in other.name)
    lines = f", {counted(other.lines, 'line')}" if other.lines else ""
    return f"{other.why}: {name}{lines}{f', in {other.currency}' if other.currency != currency else ''}"


_AMOUNT = CellUnit(_dollars_of)
_OTHER_COLUMNS: tuple[TableColumn[tuple[Other, str]], ...] = (
    TableColumn("", lambda row: row[0].nanos // 1000, _AMOUNT, 15),
    TableColumn("", _other_words, align="<", gap=2),
)
_COLUMNS: tuple[TableColumn[_Row], ...] = (
    TableColumn("DIFFERENCES", lambda row: row[0], width=38, align="<"),
    TableColumn("ledger", lambda row: row[1], _AMOUNT, 13),
    TableColumn("invoice", lambda row: row[2], _AMOUNT, 13),
    TableColumn("difference", lambda row: row[3], _AMOUNT, 13),
)
