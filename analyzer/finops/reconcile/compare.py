"""Hold an invoice against the ledger, GPU kind by GPU kind and day by day, and say why they differ.

A difference is split into what hours and what prices make of it; the two sum to it, to the millionth. Each counts
without its sign: fewer hours at a higher price cost the same, and are no match. The ledger is a store's, or that of a
running server, which is sent the sums of the invoice alone.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agent.wire.units import DAY_US, HOUR_MS, HOUR_US
from analyzer.errors import ConfigError, EmptyLedgerError, LedgerError
from analyzer.finops.focus.read import digest_of, is_own, read_focus
from analyzer.finops.reconcile.bill import Bill, Billed, Span, gather
from analyzer.finops.reconcile.gpu_lines import SkuMap
from analyzer.period import Calendar
from analyzer.server_client import ask_server_json
from analyzer.text.words import some
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class OwnedTime:
    """GPU milliseconds that were owned, what they cost, and how much of them no agent saw or no price is known of.

    `owned_ms` is what of it the site owns itself: nobody bills that.
    """

    milliseconds: int
    cost_micros: int
    owned_ms: int
    owned_micros: int
    unseen_ms: int
    unpriced_ms: int


def booked(session: Session, start: int, end: int, bill: Bill) -> dict[tuple[str, int], OwnedTime]:
    """Return the ledger of a span by GPU kind and UTC day, without hours of days that the bill has in part."""
    (day, first), (after, next_day) = _without_usage(bill)
    rows = session.rows(
        """
        SELECT coalesce(sku, 'unknown'), hour // $day_us * $day_us, sum(milliseconds), coalesce(sum(cost_micros), 0),
            coalesce(sum(milliseconds) FILTER (purchase_option = 'owned'), 0),
            coalesce(sum(cost_micros) FILTER (purchase_option = 'owned'), 0),
            coalesce(sum(milliseconds) FILTER (state = 'unobserved' AND cause = 'never_seen'), 0),
            coalesce(sum(milliseconds) FILTER (cost_micros IS NULL), 0)
        FROM ledger WHERE hour >= $start AND hour < $end
            AND (hour < $day OR hour >= $first) AND (hour < $after OR hour >= $next) GROUP BY 1, 2
        """,
        {"day_us": DAY_US, "start": start, "end": end, "day": day, "first": first, "after": after, "next": next_day},
    )
    return {(sku, int(day)): OwnedTime(*map(int, amounts)) for sku, day, *amounts in rows}


def _without_usage(bill: Bill) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return from when to when the bill has no usage in its first day and in its last one, by whole hours."""
    if bill.begins is None or bill.ends is None:
        return (0, 0), (0, 0)
    first, after = bill.begins // HOUR_US * HOUR_US, -(-bill.ends // HOUR_US) * HOUR_US
    return (first // DAY_US * DAY_US, first), (after, -(-after // DAY_US) * DAY_US)


_MATCHED_PERMILLE = 10  # ours: a bill and a ledger that differ by more than 1% do not say the same
_SAME_HOURS = 1_000  # hours are the same where they differ by less than a thousandth
_HOURS_OF_DAY = 24


@dataclass(frozen=True, slots=True)
class Reason:
    """Why two sides differ: a word for machines, a sentence, and how much of the difference it makes, if told."""

    kind: str
    words: str
    micros: int | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """One GPU kind on one UTC day. `counts` is False where the two cannot be expected to agree."""

    sku: str
    day: int
    ledger_micros: int
    invoice_micros: int
    ledger_ms: int
    invoice_nano_hours: int | None
    counts: bool
    reasons: tuple[Reason, ...]

    @property
    def micros(self) -> int:
        """What the invoice has more than the ledger."""
        return self.invoice_micros - self.ledger_micros

    @property
    def apart_micros(self) -> int:
        """How far they are apart: what hours and what prices make, each without its sign."""
        return max(abs(self.micros), sum(abs(reason.micros or 0) for reason in self.reasons))

    @property
    def is_unpriced(self) -> bool:
        """Whether the ledger has no price of some of it, so that equal sums say nothing."""
        return any(reason.kind == "no_price" for reason in self.reasons)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A whole invoice against the ledger. `currency` is the ledger's; `foreign` are those of GPUs where they differ.

    `start` and `end` are what was asked for; what was compared of it is told by `days`. `in_part` says that the bill
    has usage of a part of its first or last day alone, and that no more of the ledger was compared.
    """

    currency: str
    foreign: tuple[str, ...]
    start: int
    end: int
    differences: tuple[Difference, ...]
    invoice_last: int | None
    unseen_ms: int
    in_part: bool = False

    @property
    def counted(self) -> tuple[Difference, ...]:
        """What decides whether they match."""
        return tuple(each for each in self.differences if each.counts)

    @property
    def days(self) -> tuple[int, ...]:
        """The UTC days (their first microseconds) that were compared, in their order."""
        return tuple(sorted({each.day for each in self.counted}))

    @property
    def compared(self) -> tuple[int, int]:
        """From when to when anything was compared; what was asked for, where nothing was."""
        return (self.days[0], self.days[-1] + DAY_US) if self.days else (self.start, self.end)

    @property
    def ledger_micros(self) -> int:
        """What the ledger says of what is compared."""
        return sum(each.ledger_micros for each in self.counted)

    @property
    def invoice_micros(self) -> int:
        """What the invoice says of it."""
        return sum(each.invoice_micros for each in self.counted)

    @property
    def apart_micros(self) -> int:
        """How far they are apart: the differences of all kinds and days, each without its sign."""
        return sum(each.apart_micros for each in self.counted)

    @property
    def by_cost_alone(self) -> int:
        """Of how many kinds and days the invoice does not say GPU-hours, so that only what they cost was compared."""
        return sum(each.invoice_nano_hours is None for each in self.counted)

    @property
    def without_price(self) -> int:
        """Of how many kinds and days the ledger has no price of some hours, so that equal sums say nothing of these."""
        return sum(each.is_unpriced for each in self.counted)

    @property
    def permille(self) -> int | None:
        """How far they are apart in thousandths of the invoice, rounded up; None where nothing can be compared."""
        whole = max(self.invoice_micros, self.ledger_micros)
        return -(-self.apart_micros * 1000 // whole) if whole > 0 and not self.foreign else None

    @property
    def matched(self) -> bool:
        """Whether they say the same, within a hundredth."""
        return self.permille is not None and self.permille <= _MATCHED_PERMILLE


def compare(
    ledger: Mapping[tuple[str, int], OwnedTime],
    bill: Bill,
    currency: str,
    span: tuple[int, int],
    hours_booked: Mapping[int, int],
) -> Comparison:
    """Return both sides by kind and day. `hours_booked` says how many hours of each UTC day the ledger has."""
    foreign = tuple(sorted(bill.currencies - {currency}))
    days = {(sku, day): billed for (sku, day, of), billed in bill.days.items() if of == currency}
    billed_skus = {sku for sku, _, _ in bill.days}
    found = []
    for key in sorted({*ledger, *days}, key=lambda key: (key[1], key[0])):
        sku, day = key
        side = _Sides(sku, day, _rented(ledger.get(key)), days.get(key), sku in billed_skus)
        found.append(_difference(side, bill, bool(foreign), (span, hours_booked.get(day, 0))))
    unseen = sum(side.unseen_ms for side in ledger.values())
    return Comparison(currency, foreign, *span, tuple(found), bill.last, unseen)


def _rented(booked: OwnedTime | None) -> OwnedTime | None:
    """Return what is not the site's own where a kind is only partly: nobody bills the rest."""
    if booked is None or booked.owned_ms in (0, booked.milliseconds):
        return booked
    return replace(
        booked,
        milliseconds=booked.milliseconds - booked.owned_ms,
        cost_micros=booked.cost_micros - booked.owned_micros,
        owned_ms=0,
        owned_micros=0,
    )


@dataclass(frozen=True, slots=True)
class _Sides:
    sku: str
    day: int
    booked: OwnedTime | None
    billed: Billed | None
    is_billed_at_all: bool

    @property
    def equal(self) -> bool:
        """Whether both say the same amount, and the same hours."""
        if self.booked is None or self.billed is None or not self.billed.hours_known:
            return False
        more = self.billed.nano_hours - _nano_hours(self.booked.milliseconds)
        return (
            self.booked.cost_micros == _micros(self.billed.nanos) and abs(more) * _SAME_HOURS <= self.billed.nano_hours
        )


def _difference(side: _Sides, bill: Bill, foreign: bool, known: tuple[tuple[int, int], int]) -> Difference:
    booked, billed = side.booked, side.billed
    ledger_micros, ledger_ms = (booked.cost_micros, booked.milliseconds) if booked else (0, 0)
    invoice_micros = _micros(billed.nanos) if billed else 0
    hours = billed.nano_hours if billed and billed.hours_known else 0 if billed is None else None
    apart = _not_comparable(side, bill, foreign, known)
    if apart is not None:
        reasons: tuple[Reason, ...] = (apart,)
    else:
        reasons = _reasons(booked, billed, ledger_micros, invoice_micros, hours)
    return Difference(side.sku, side.day, ledger_micros, invoice_micros, ledger_ms, hours, apart is None, reasons)


def _not_comparable(side: _Sides, bill: Bill, foreign: bool, known: tuple[tuple[int, int], int]) -> Reason | None:
    """Return why the two cannot be expected to agree, or None where they should."""
    (start, end), hours = known
    expected = (min(end, side.day + DAY_US) - max(start, side.day)) // (DAY_US // _HOURS_OF_DAY)
    if foreign:
        return Reason("currency", "the invoice is in another currency")
    booked = side.booked
    if not side.is_billed_at_all and booked is not None and booked.owned_ms == booked.milliseconds:
        return Reason("owned", "owned: not invoiced")
    if hours < expected and not side.equal:
        return Reason("not_booked", f"the ledger has {hours} of {expected} hours of this day")
    if side.billed is None and bill.last is not None and side.day > bill.last:
        return Reason("invoice_ends", "the invoice ends before")
    if side.billed is None and bill.first is not None and side.day < bill.first:
        return Reason("invoice_begins", "the invoice begins later")
    return None


def _reasons(
    booked: OwnedTime | None, billed: Billed | None, ledger_micros: int, invoice_micros: int, hours: int | None
) -> tuple[Reason, ...]:
    apart = invoice_micros - ledger_micros
    found = []
    if booked is not None and booked.unpriced_ms:
        words = f"{_hours(booked.unpriced_ms)} GPU-hours have no price in the ledger"
        found.append(Reason("no_price", words, None if ledger_micros or billed is None else apart or None))
    if booked is None and apart:
        found.append(Reason("not_owned", "billed, and the ledger owns none of these", apart))
    elif billed is None and apart:
        found.append(Reason("not_billed", "owned per the ledger, and not on the invoice", apart))
    elif booked is not None and billed is not None:
        by_parts = _by_hours_and_price(booked, ledger_micros, invoice_micros, hours)
        is_priceless = booked.unpriced_ms and not ledger_micros  # of hours alone it can be told whether they agree
        found += [replace(one, micros=None) for one in by_parts if one.kind == "hours"] if is_priceless else by_parts
    if apart and booked is not None and booked.unseen_ms:
        found.append(
            Reason("unseen", f"of these {_hours(booked.unseen_ms)} GPU-hours are owned, and no agent saw them")
        )
    return tuple(found)


def _by_hours_and_price(booked: OwnedTime, ledger_micros: int, invoice_micros: int, hours: int | None) -> list[Reason]:
    apart = invoice_micros - ledger_micros
    if hours is None or not booked.milliseconds:
        words = "price or hours differ: the hours on the invoice are not known"
        return [Reason("price_or_hours", words, apart)] if apart else []
    owned = _nano_hours(booked.milliseconds)
    more = hours - owned
    if abs(more) * _SAME_HOURS <= owned:
        if not apart:
            return []
        return [Reason("price", _price_words(ledger_micros, owned, invoice_micros, hours), apart)]
    by_hours = more * ledger_micros // owned
    words = f"{abs(more) / 1e9:,.1f} GPU-hours "
    words += "more are billed than the ledger owns" if more > 0 else "fewer are billed than the ledger owns"
    found = [Reason("hours", words, by_hours)]
    if abs(apart - by_hours) * _SAME_HOURS > max(invoice_micros, 1):
        found.append(Reason("price", _price_words(ledger_micros, owned, invoice_micros, hours), apart - by_hours))
        return found
    return [Reason("hours", words, apart)]


def _price_words(ledger_micros: int, owned: int, invoice_micros: int, hours: int) -> str:
    ours, theirs = ledger_micros * 1000 / owned, invoice_micros * 1000 / hours if hours else 0.0
    return f"price differs: {theirs:,.4f} per GPU-hour on the invoice, {ours:,.4f} in the ledger"


def _nano_hours(milliseconds: int) -> int:
    return milliseconds * 1_000_000_000 // HOUR_MS


def _micros(nanos: int) -> int:
    return (nanos + 500) // 1000


def _hours(milliseconds: int) -> str:
    return f"{milliseconds / HOUR_MS:,.1f}"


def ledger_skus(session: Session) -> list[str]:
    """Return the GPU kinds of a ledger.

    Raises:
        LedgerError: it is empty.
    """
    skus = [sku for (sku,) in session.rows("SELECT DISTINCT sku FROM ledger WHERE sku IS NOT NULL ORDER BY sku")]
    if not skus:
        raise EmptyLedgerError
    return skus


def gathered(invoice: Sequence[Path], skus: Collection[str], mapping: Sequence[Path], span: Span) -> Bill:
    """Return the files of an invoice as they are compared, by the ledger's kinds and mapping files.

    Raises:
        ConfigError: a file cannot be read, is our own export, or says what another says; or they have no lines.
    """
    digests: dict[str, Path] = {}
    for path in invoice:
        if is_own(path):
            raise ConfigError(f"{path} is an export of gpuledger, not an invoice: it always agrees with the ledger")
        if (other := digests.setdefault(digest_of(path), path)) is not path:
            raise ConfigError(f"{path} has the content of {other}: each file of an invoice counts once")
    bill = gather(read_focus(*invoice), SkuMap.of(skus, *mapping), *span)
    if not bill.lines:
        raise ConfigError(f"{name_of(invoice)} has no lines in the period")
    return bill


def name_of(invoice: Sequence[Path]) -> str:
    """Return what an invoice is called: its files' names, of many the first ones."""
    return some([path.name for path in invoice])[:_NAME_MOST]


def hold(session: Session, bill: Bill, name: str, currency: str, span: Span) -> Comparison:
    """Return what differs between a gathered invoice and the ledger.

    Raises:
        ConfigError: no line of it is of GPUs.
    """
    start = span[0] if span[0] is not None else bill.first
    end = span[1] if span[1] is not None else None if bill.last is None else bill.last + DAY_US
    if start is None or end is None:
        raise ConfigError(
            f"{name}: none of its {bill.lines:,} lines in the period is of a known GPU; map them "
            "with --map FILE (docs/focus.md)"
        )
    known = session.rows(
        "SELECT hour // $day * $day, count(*) FROM ledger_hours WHERE hour >= $start AND hour < $end GROUP BY 1",
        {"day": DAY_US, "start": start, "end": end},
    )
    in_part = any(max(since, start) < min(until, end) for since, until in _without_usage(bill))
    compared = compare(booked(session, start, end, bill), bill, currency, (start, end), dict(known))
    return replace(compared, in_part=in_part)


def reconcile(
    session: Session, invoice: Sequence[Path], mapping: Sequence[Path], currency: str, span: Span = (None, None)
) -> tuple[Comparison, Bill]:
    """Return what differs, and the invoice as it was gathered. Raises as its parts do."""
    bill = gathered(invoice, ledger_skus(session), mapping, span)
    return hold(session, bill, name_of(invoice), currency, span), bill


_PATH, _NAME_MOST = "/v1/invoices", 200


def reconcile_by_server(
    server: str,
    invoice: Sequence[Path],
    mapping: Sequence[Path],
    spoken: tuple[str | None, str | None],
    keep: bool,
    top: int,
) -> tuple[dict[str, Any], Bill]:
    """Return the server's answer (`matched`, `text` and `report`), and what it was sent.

    `spoken` are the words of --since and --until.

    Raises:
        ConfigError: the invoice, the mapping or the words cannot be read.
        LedgerError: the server does not answer, or refuses.
    """
    about = ask_server_json(server, _PATH)
    start = end = None
    try:
        if spoken != (None, None):
            span = Calendar("UTC").span(*spoken, int(about["known_until"]))
            start, end = span.start, span.end
        bill = gathered(invoice, [str(sku) for sku in about["skus"]], mapping, (start, end))
    except (KeyError, TypeError) as error:
        raise LedgerError(f"{server}{_PATH} does not answer as gpuledger does") from error
    body = _body(bill) | {"invoice": name_of(invoice), "digest": digest_of(*invoice), "keep": keep, "top": top}
    body |= {name: at for name, at in (("start", start), ("end", end)) if at is not None}
    return ask_server_json(server, _PATH, body), bill


def _body(bill: Bill) -> dict[str, object]:
    return {
        "currencies": sorted(bill.currencies),
        "lines": bill.lines,
        "begins": bill.begins,
        "ends": bill.ends,
        "days": [
            {"sku": sku, "day": day, "currency": currency, **asdict(one)}
            for (sku, day, currency), one in sorted(bill.days.items())
        ],
        "others": [asdict(one) for one in bill.others.values()],
    }
