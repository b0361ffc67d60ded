"""What is wrong with the prices: by themselves, one after another, and against the fleet and its ledger."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from fractions import Fraction
from itertools import pairwise

from agent.wire.units import HOUR_US
from analyzer.prices.derived import Spot
from analyzer.prices.list_prices import median_of, range_of
from analyzer.prices.non_gpu_rows import Tariff, row_of
from analyzer.prices.price_book import Derived, PriceBook, PriceRow, name_of
from analyzer.prices.rows import Charge
from analyzer.text.words import counted, dollars, gpu_hours
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Complaint:
    """One fault of the price book: its kind as in docs/prices.md, and a sentence with the way out."""

    kind: str
    sentence: str


def _midnight_us(day: date) -> int:
    """Return the first microsecond of a UTC day."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000


def day_of(at_us: int) -> date:
    """Return the UTC day of a microsecond."""
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).date()


_HOST = """
WITH host AS (
    SELECT node, arg_max(node_group, (started_at, batch)) FILTER (gpu_uuid IS NULL) AS node_group,
        arg_max(region, (started_at, batch)) FILTER (gpu_uuid IS NULL) AS region,
        quantile_disc(power_limit_watts, 0.5) AS watts
    FROM inventory GROUP BY node
)
"""


@dataclass(frozen=True, slots=True)
class Owned:
    """GPUs of one kind that the store's fleet owns, last seen owned at `at_us`; `watts` is their power limit."""

    sku: str | None
    purchase_option: str | None
    node_group: str | None
    gpus: int
    at_us: int
    region: str | None = None
    watts: float | None = None


@dataclass(frozen=True, slots=True)
class KindHour:
    """GPU time of one kind in one hour of the ledger."""

    sku: str | None
    purchase_option: str | None
    node_group: str | None
    region: str | None
    hour: int
    milliseconds: int


def owned_kinds(session: Session, now_us: int) -> list[Owned]:
    """Return what the store's fleet owns by kind; each with the latest moment at or before `now_us` it was owned."""
    rows = session.rows(
        f"""
        {_HOST}
        SELECT sku, purchase_option, node_group, count(DISTINCT (node, gpu_uuid, slot)),
               max(greatest(owned_from, least($now, coalesce(owned_until, $now + 1) - 1))), region,
               quantile_disc(watts, 0.5)
        FROM ownership LEFT JOIN host USING (node)
        GROUP BY sku, purchase_option, node_group, region ORDER BY ALL
        """,
        {"now": now_us},
    )
    return [Owned(*row) for row in rows]


def booked_kinds(session: Session) -> list[KindHour]:
    """Return the hours of the ledger by kind of GPU: a row a kind and hour, however many GPUs there are."""
    rows = session.rows(
        f"""
        {_HOST}
        SELECT sku, purchase_option, node_group, region, hour, sum(milliseconds)::BIGINT
        FROM ledger LEFT JOIN host USING (node) GROUP BY ALL ORDER BY ALL
        """
    )
    return [KindHour(*row) for row in rows]


_STALE_DAYS = 90  # list prices of one GPU moved within a quarter (SCREENS 6: a book 16 days old is fresh)
_STALE_TARIFF_DAYS = 400  # tariffs of power and storage, and internal price lists, are made by the year
_SUSPICIOUS_LOW, _SUSPICIOUS_HIGH = 0.2, 5.0  # times the median list price; honest contracts lie well inside
# Spot is listed at a tenth of what is asked on demand, and owned GPUs that are some years old cost as little; a figure
# of a node that was meant per GPU is eight times too much, the other way round an eighth.
_SUSPICIOUS_LOW_MADE = 0.05


def _row_faults(book: PriceBook, today: date, teams: Collection[str] | None) -> list[Complaint]:
    """Return what is to be asked of each row; `teams` are those that exist, where that is known."""
    found: list[Complaint] = []
    for row in book.rows:
        name = name_of(row, row.micros_per_gpu_hour)
        found += _stale(name, row, today, _STALE_DAYS)
        found += _suspicious(name, row.sku, row.micros_per_gpu_hour, book.currency)
    for made in book.derived:
        found += _of_derived(made, book, today)
    for charge in book.charges:
        found += _stale(f"charge {charge.told}", charge, today, _STALE_TARIFF_DAYS) + _whose(charge, teams)
    for tariff in book.beside.rows:
        found += _stale(tariff.told, tariff, today, _STALE_TARIFF_DAYS)
    return found


def _of_derived(row: Derived, book: PriceBook, today: date) -> list[Complaint]:
    """A row that is over is passed over in silence where another has taken its place."""
    midnight = _midnight_us(today)
    at_us = max(row.starts_at, min(midnight, row.ends_at - HOUR_US if row.ends_at is not None else midnight))
    micros = row.micros_at(at_us)
    name = name_of(row, micros)
    followed = not row.covers(midnight) and book.row_in_place_of(row, midnight) is not None
    found = _stale(name, row, today, row.stale_days)
    if not followed:
        found += [Complaint(kind, f"{name}: {sentence}") for kind, sentence in row.faults(today)]
    low = _SUSPICIOUS_LOW if row.purchase_option == "reserved" else _SUSPICIOUS_LOW_MADE
    return found + (_suspicious(name, row.sku, micros, book.currency, low) if micros is not None else [])


def _whose(charge: Charge, teams: Collection[str] | None) -> list[Complaint]:
    if teams is None or charge.team in teams:
        return []
    like = get_close_matches(charge.team, sorted(teams), n=1)
    hint = f"did you mean {like[0]!r}?" if like else "write the name that teams.toml has"
    return [Complaint("unknown", f"charge {charge.told}: no rule of the teams file names this team; {hint}")]


def _stale(name: str, row: PriceRow | Derived | Charge | Tariff, today: date, most_days: int) -> list[Complaint]:
    if row.as_of is None:
        return [Complaint("stale", f"{name}: its source has no date; ask, and write a dated [[price]]")]
    age = (today - row.as_of).days
    over = row.ends_at is not None and row.ends_at <= _midnight_us(today)
    if age <= most_days or over:
        return []
    return [Complaint("stale", f"{name}: last checked {age} days ago ({row.as_of}); check again and set as_of")]


def _suspicious(
    name: str, sku: str | None, micros: int, currency: str, low: float = _SUSPICIOUS_LOW
) -> list[Complaint]:
    median = median_of(sku) if sku and currency == "USD" else None
    if median is None or low * median <= micros <= _SUSPICIOUS_HIGH * median:
        return []
    times = micros / median
    sentence = f"{name}: {times:.2f} times the median list price of ${dollars(median)}; is it per GPU and per hour?"
    return [Complaint("suspicious", sentence)]


# Ours: a new contract seldom moves a price by half, and a node's figure taken for a GPU's is eight times too much.
_JUMP_PERMILLE = 500
_ENDING_DAYS = 30  # so long it takes to write the next row, or to ask for it

_Row = PriceRow | Derived


def _order_faults(book: PriceBook, today: date) -> list[Complaint]:
    """Return what is odd about rows that stand beside or after one another."""
    return [*_jumps(book), *_dear_spots(book), *_endings(book, today)]


def _jumps(book: PriceBook) -> Iterable[Complaint]:
    """Yield each change by more than half from one row to the next of the same thing; a market is no such change."""
    same: dict[object, list[_Row]] = {}
    for row in (*book.rows, *book.derived):
        if not isinstance(row, Spot):
            same.setdefault((row.subject, book.regions.wanted(row)), []).append(row)
    for rows in same.values():
        for earlier, later in pairwise(sorted(rows, key=lambda row: row.starts_at)):
            before = None if earlier.ends_at is None else earlier.micros_at(earlier.ends_at - HOUR_US)
            after = later.micros_at(later.starts_at)
            if before and after is not None and abs(after - before) * 1000 > _JUMP_PERMILLE * before:
                yield Complaint(
                    "suspicious",
                    f"{name_of(later, after)}: {after / before:.2f} times the {dollars(before)} before"
                    f" {day_of(later.starts_at)}; is it per GPU and per hour, as the one before?",
                )


def _dear_spots(book: PriceBook) -> Iterable[Complaint]:
    """Yield spot rows that at times cost more than the same GPU on demand: nobody would buy them then."""
    for row in (*book.rows, *book.derived):
        if row.subject[1] == "spot":
            dear = [at for at in _moments(row, book) if _is_dear(row, book, at)]
            if dear:
                hours = counted(len(dear), "hour") if isinstance(row, Spot) else f"from {day_of(dear[0])} on"
                yield Complaint(
                    "suspicious",
                    f"{name_of(row, row.micros_at(dear[0]))}: more than on demand"
                    f" {'in ' if isinstance(row, Spot) else ''}{hours}; is it of one GPU, and of the same place?",
                )


def _moments(row: _Row, book: PriceBook) -> Iterable[int]:
    if isinstance(row, Spot):
        return row.hours
    others = (other.starts_at for other in (*book.rows, *book.derived) if row.covers(other.starts_at))
    return sorted({row.starts_at, *others})


def _is_dear(row: _Row, book: PriceBook, at_us: int) -> bool:
    sku, _, node_group = row.subject
    asked = book.row(sku, "on_demand", at_us, node_group, book.regions.standing(row))
    mine, theirs = row.micros_at(at_us), None if asked is None else asked.micros_at(at_us)
    is_own = asked is not None and asked.subject[1] == "on_demand"
    return is_own and mine is not None and theirs is not None and mine > theirs


def _endings(book: PriceBook, today: date) -> Iterable[Complaint]:
    start, end = _midnight_us(today), _midnight_us(today + timedelta(days=_ENDING_DAYS))
    for row in (*book.rows, *book.derived):
        ends_at = row.ends_at
        if ends_at is not None and start < ends_at <= end and book.row_in_place_of(row, ends_at) is None:
            yield Complaint(
                "ending",
                f"{name_of(row, row.micros_at(ends_at - HOUR_US))}: ends {day_of(ends_at)}, and no row follows: such"
                " GPUs have no known cost from then on; add the next one",
            )


_PricedKind = tuple[str | None, str | None, str | None, str | None]  # SKU, purchase option, node group, region


def _fleet_faults(book: PriceBook, fleet: Sequence[Owned], booked: Sequence[KindHour]) -> list[Complaint]:
    """Return what is wrong between the prices and the fleet; missing prices first: those cost a report its money."""
    if not fleet and not booked:
        return []
    bare = {_kind(one) for one in fleet if _price_now(book, one) is None}
    found = [_missing(one, book) for one in fleet if _kind(one) in bare]
    found += _past_hours(book, booked, bare)
    return [*found, *_regions(book, fleet, booked), *_unused(book, fleet, booked), *_under_power(book, fleet)]


def _kind(one: Owned | KindHour) -> _PricedKind:
    return one.sku, one.purchase_option, one.node_group, one.region


def _price_now(book: PriceBook, one: Owned) -> object:
    return book.price(one.sku, one.purchase_option, one.at_us, one.node_group, one.region)


def _told(kind: _PricedKind) -> str:
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


def _past_hours(book: PriceBook, booked: Iterable[KindHour], bare: set[_PricedKind]) -> list[Complaint]:
    """Return the hours of the ledger without a price, of kinds that have one now; gaps of a series tell themselves."""
    lacking: dict[_PricedKind, list[KindHour]] = {}
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
                f"{name_of(row, None)}: its region is given but selects nothing, and {named}; write [regions], so"
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
                f"{name_of(row, micros)}: less than the {dollars(power)} per hour of its power alone, at its limit of"
                f" {one.watts:.0f} W; is it per GPU and per hour?",
            )


def complaints(
    book: PriceBook,
    fleet: Sequence[Owned],
    today: date,
    teams: Collection[str] | None = None,
    booked: Sequence[KindHour] = (),
) -> list[Complaint]:
    """Return every fault of the book, missing prices first: those cost a report its money column.

    `teams` are those that exist, where that is known: a charge for another is charged to nobody.
    """
    return [*_fleet_faults(book, fleet, booked), *_row_faults(book, today, teams), *_order_faults(book, today)]
