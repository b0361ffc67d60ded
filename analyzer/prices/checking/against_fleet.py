"""The prices against what needs one: GPUs and hours without a price, rows that price nothing, regions, power. Pure."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fractions import Fraction

from analyzer.prices.checking.complaint import Complaint, day_of
from analyzer.prices.checking.fleet import KindHour, Owned
from analyzer.prices.list_prices import range_of
from analyzer.prices.money import dollars
from analyzer.prices.non_gpu_rows import row_of
from analyzer.prices.price_book import PriceBook
from analyzer.prices.row_names import name_of
from analyzer.text.words import counted, gpu_hours

PricedKind = tuple[str | None, str | None, str | None, str | None]  # SKU, purchase option, node group, region


def fleet_faults(book: PriceBook, fleet: Sequence[Owned], booked: Sequence[KindHour]) -> list[Complaint]:
    """Return what is wrong between the prices and the fleet; missing prices first: those cost a report its money."""
    if not fleet and not booked:
        return []
    bare = {_kind(one) for one in fleet if _price_now(book, one) is None}
    found = [_missing(one, book) for one in fleet if _kind(one) in bare]
    found += _past_hours(book, booked, bare)
    return [*found, *_regions(book, fleet, booked), *_unused(book, fleet, booked), *_under_power(book, fleet)]


def _kind(one: Owned | KindHour) -> PricedKind:
    return one.sku, one.purchase_option, one.node_group, one.region


def _price_now(book: PriceBook, one: Owned) -> object:
    return book.price(one.sku, one.purchase_option, one.at_us, one.node_group, one.region)


def _told(kind: PricedKind) -> str:
    sku, option, node_group, _ = kind
    group = f" in {node_group}" if node_group else ""
    return f"{sku or 'GPU of unknown SKU'} ({option or 'purchase option unknown'}){group}"


def _missing(kind: Owned, book: PriceBook) -> Complaint:
    known = range_of(kind.sku) if kind.sku else None
    hint = f"; list prices on demand: ${dollars(known[0])} to ${dollars(known[1])}" if known else ""
    written = {sku for row in (*book.rows, *book.derived) if (sku := row.subject[0]) is not None}
    model = kind.sku.partition("-")[0] if kind.sku and kind.sku not in written else None
    like = sorted(sku for sku in written if sku.partition("-")[0] == model)
    hint += f"; the file has a price of {like[0]}: is that the same GPU?" if like else ""
    if book.regions and book.regions.provider_of(kind.region) is None:
        where = "name no region" if kind.region is None else f"name region {kind.region!r}, which [regions] does not"
        hint += f"; these hosts {where}"
    said = "no price is known, so their cost is not shown; add a [[price]]"
    return Complaint("missing", f"{kind.gpus} x {_told(_kind(kind))}: {said}{hint}")


def _past_hours(book: PriceBook, booked: Iterable[KindHour], bare: set[PricedKind]) -> list[Complaint]:
    """Return the hours of the ledger without a price, of kinds that have one now; gaps of a series tell themselves."""
    lacking: dict[PricedKind, list[KindHour]] = {}
    for one in booked:
        kind = _kind(one)
        if kind not in bare and book.row(one.sku, one.purchase_option, one.hour, one.node_group, one.region) is None:
            lacking.setdefault(kind, []).append(one)
    return [Complaint("missing", f"{_told(kind)}: {_lacking(hours)}") for kind, hours in lacking.items()]


def _lacking(hours: Sequence[KindHour]) -> str:
    first, last = day_of(hours[0].hour), day_of(hours[-1].hour)
    span = f"{first}" if first == last else f"{first} to {last}"
    many, time = counted(len(hours), "hour"), gpu_hours(sum(one.milliseconds for one in hours))
    return (
        f"of {many} of the ledger, {span}, no price is known ({time} GPU-hours); a row must begin earlier or end later"
    )


def _regions(book: PriceBook, fleet: Iterable[Owned], booked: Iterable[KindHour]) -> Iterable[Complaint]:
    """Yield rows of a region in which no host stands, and rows whose region is told while hosts stand elsewhere."""
    kinds: list[Owned | KindHour] = [*fleet, *booked]
    hosts = sorted({one.region for one in kinds if one.region is not None})
    named = f"hosts name {', '.join(hosts)}" if hosts else "no host names its region"
    for row in (*book.rows, *book.derived):
        region = row.place[1]
        if region is None or (not book.regions and set(hosts) <= {region}):
            continue
        if book.regions and region not in hosts:
            yield Complaint("unknown", f"{name_of(row, None)}: no host of the fleet stands in {region!r}; {named}")
        elif not book.regions:
            yield Complaint(
                "unknown",
                f"{name_of(row, None)}: its region is told and chooses nothing, and {named}; write [regions], so"
                " that it prices GPUs there alone",
            )


def _unused(book: PriceBook, fleet: Sequence[Owned], booked: Sequence[KindHour]) -> Iterable[Complaint]:
    """Yield rows that price nothing: not the fleet as it is, and no hour of the ledger in their time."""
    used = {id(book.row(one.sku, one.purchase_option, one.at_us, one.node_group, one.region)) for one in fleet}
    used |= {id(book.row(one.sku, one.purchase_option, one.hour, one.node_group, one.region)) for one in booked}
    first = min([one.hour for one in booked] or [one.at_us for one in fleet])
    last = max([*(one.at_us for one in fleet), *(one.hour for one in booked)])
    kinds: list[Owned | KindHour] = [*fleet, *booked]
    skus = sorted({one.sku for one in kinds if one.sku})
    hosts = {one.region for one in kinds}
    for row in (*book.rows, *book.derived):
        is_of_then = row.starts_at <= last and (row.ends_at is None or row.ends_at > first)
        is_elsewhere = bool(book.regions) and row.place[1] is not None and row.place[1] not in hosts
        if id(row) in used or not is_of_then or is_elsewhere:
            continue
        sku = row.subject[0]
        like = get_close_matches(sku, skus, n=1) if sku is not None and sku not in skus else []
        hint = f"; did you mean {like[0]!r}?" if like else ""
        yield Complaint("unused", f"{name_of(row, None)}: prices no GPU of the fleet and no hour of the ledger{hint}")


def _under_power(book: PriceBook, fleet: Iterable[Owned]) -> Iterable[Complaint]:
    """Yield owned GPUs that cost less than their power alone would, by the site's own tariff and their power limit."""
    for one in fleet:
        row = book.row(one.sku, one.purchase_option, one.at_us, one.node_group, one.region)
        tariff = row_of(book.beside.energy, one.node_group, one.at_us)
        micros = row.micros_at(one.at_us) if row is not None else None
        if one.purchase_option != "owned" or not one.watts or micros is None or row is None:
            continue
        if tariff is None or tariff.micros_per_kwh is None:
            continue
        power = int(Fraction(one.watts) / 1000 * tariff.pue_millionths * tariff.micros_per_kwh / 1_000_000)
        if micros < power:
            yield Complaint(
                "suspicious",
                f"{name_of(row, micros)}: less than the {dollars(power)} an hour of its power alone, at its limit of"
                f" {one.watts:.0f} W; is it per GPU and per hour?",
            )
