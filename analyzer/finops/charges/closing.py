"""Close the terms of final hours: whose their runs are and what is charged for them. What is edited later is corrected.

An hour's terms close when it is final. A pass then compares closed hours with what the teams file, the charge rates and
the ledger's adjustments say now, and writes down the differences, dated now: time that another team bears as two
adjustments, charges in `charge_corrections`. It is done in spans of hours, and a pass that is cut off is made good by
the next.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from analyzer.finops.charges.sums import HeldHour, charged_micros
from analyzer.finops.non_gpu_costs.energy import Rates, close_rates
from analyzer.ledger.pending import is_reached, spans
from analyzer.ledger.teams import TeamBook, team_book
from analyzer.period import Period, local
from analyzer.prices.price_book import PriceBook, price_book
from analyzer.prices.rows import Charge
from analyzer.queries.statements import BOOKED_COLUMNS, PLACED_COLUMNS, placed, statements
from analyzer.queries.statements import run as run_sql
from analyzer.settings.settings import Settings
from collector.store.session import Session

_BOOKED = """
WITH shut AS (SELECT hour, closed_at FROM closed_hours WHERE hour >= $start AND hour < $end), learned AS (
    SELECT a.hour, a.recorded_at, CASE WHEN a.is_moved THEN 'teams' WHEN a.reason = 'a price changed' THEN 'prices'
        WHEN a.reason = 'the rules changed' THEN 'rules' END AS kind
    FROM adjustments a JOIN shut s ON s.hour = a.hour AND a.recorded_at >= s.closed_at
)
SELECT DISTINCT recorded_at, kind FROM learned WHERE kind IS NOT NULL
UNION
SELECT DISTINCT r.recorded_at, 'charge rates' FROM charge_corrections r
JOIN shut s ON s.hour = r.hour AND r.recorded_at >= s.closed_at
LEFT JOIN learned l ON l.hour = r.hour AND l.recorded_at = r.recorded_at
WHERE r.is_of_rates OR l.hour IS NULL
ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class Edited:
    """What changed after the hours of a period had closed, and in which months its corrections are booked.

    `is_waiting`: the teams file or the charge rates say otherwise than when corrections were last made.
    """

    label: str
    kinds: tuple[str, ...]
    months: tuple[str, ...]
    is_waiting: bool


def edited(session: Session, period: Period, settings: Settings) -> Edited | None:
    """Return what was edited after hours of a period had closed; None where nothing was, or nothing has closed.

    Raises:
        ConfigError: the teams file or the price file is wrong.
    """
    asked: dict[str, object] = {"start": period.start, "end": period.end}
    if closed_at(session, period) is None:
        return None
    rows = session.rows(_BOOKED, asked)
    months = tuple(sorted({f"{local(recorded, period.timezone):%Y-%m}" for recorded, _ in rows}))
    is_waiting = _is_waiting(session, settings)
    if not rows and not is_waiting:
        return None
    return Edited(period.label, tuple(sorted({kind for _, kind in rows})), months, is_waiting)


def closed_at(session: Session, period: Period) -> int | None:
    """Return when the terms of a period were closed, of its hours the last; None where any is not, or is to come."""
    at, is_open = session.row(
        "SELECT max(c.closed_at), coalesce(bool_or(c.hour IS NULL), true) FROM ledger_hours h "
        "LEFT JOIN closed_hours c ON c.hour = h.hour WHERE h.hour >= $start AND h.hour < $end",
        {"start": period.start, "end": period.end},
    )
    return None if is_open or not is_reached(session, period.end) else int(at)


def _is_waiting(session: Session, settings: Settings) -> bool:
    """Return whether a file that the settings name is another than the last corrections were made by."""
    applied = session.rows("SELECT terms_version FROM terms_applied")
    if not applied:
        return False
    teams, _, charges = str(applied[0][0]).partition(" ")
    now_teams, _, now_charges = terms_version(settings).partition(" ")
    return (settings.teams is not None and teams != now_teams) or (
        settings.prices is not None and charges != now_charges
    )


def edited_words(one: Edited | None) -> list[str]:
    """Return the sentence for whoever reads the closed figures, without its full stop; nothing where there is none."""
    if one is None:
        return []
    kept = f"after {one.label} was final; it keeps its figures"
    said = []
    if one.kinds:
        said.append(f"{' and '.join(one.kinds)} changed {kept}, corrections are booked in {', '.join(one.months)}")
    if one.is_waiting:
        said.append(f"teams or charge rates were edited {kept}, gpuledger admin analyze books the corrections")
    return said


def terms_version(settings: Settings, teams: TeamBook | None = None, prices: PriceBook | None = None) -> str:
    """Return the digest of what closes with a final month: who is whose, and what is charged to whom.

    Books that are given are not read again.
    """
    book = price_book(settings) if prices is None else prices
    return f"{(team_book(settings) if teams is None else teams).version} {book.charges_version}"


_MOVED = "teams, cost centres or projects were mapped anew"
_GPU_HOURS = 250_000  # of the ledger read at once
_COLUMNS = ", ".join(BOOKED_COLUMNS)
_FINAL = "FROM ledger_hours WHERE status = 'final'"
_RUNS = f"""
INSERT INTO closed_runs (hour, run_id, {_COLUMNS})
SELECT h.hour, h.run_id, {", ".join(f"r.{column}" for column in BOOKED_COLUMNS)} FROM (
    SELECT hour, run_id FROM ledger WHERE run_id IS NOT NULL AND hour IN ({{hours}})
    UNION SELECT hour, run_id FROM adjustments WHERE run_id IS NOT NULL AND hour IN ({{hours}})
) h {{join}} runs r ON r.run_id = h.run_id ANTI JOIN closed_runs c ON c.hour = h.hour AND c.run_id = h.run_id
"""
_NODES = f"""
WITH closing AS (SELECT hour FROM terms_due WHERE is_new AND hour BETWEEN $first AND $last)
INSERT INTO closed_nodes BY NAME
SELECT l.hour, l.node, {", ".join(f"h.{column}" for column in PLACED_COLUMNS)} FROM (
    SELECT DISTINCT hour, node FROM ledger WHERE node IS NOT NULL AND hour IN (SELECT hour FROM closing)
    UNION SELECT c.hour, i.node FROM closing c, (SELECT DISTINCT node FROM inventory) i
) l {placed("l")} WHERE shut.node IS NULL
"""
_DUE = f"""
CREATE OR REPLACE TEMP TABLE terms_due AS
SELECT h.hour, c.hour IS NULL AS is_new FROM ledger_hours h LEFT JOIN closed_hours c ON c.hour = h.hour
LEFT JOIN (SELECT hour, count(*) AS rows FROM adjustments GROUP BY hour) a ON a.hour = h.hour
WHERE CASE WHEN c.hour IS NULL THEN h.hour IN (SELECT hour {_FINAL})
    ELSE ($everything OR coalesce(a.rows, 0) <> c.adjustments) END
"""
_CHARGED = """
SELECT d.hour, d.is_new FROM terms_due d LEFT JOIN closed_hours c ON c.hour = d.hour
LEFT JOIN (SELECT hour, count(*) AS rows FROM adjustments WHERE hour BETWEEN $first AND $last GROUP BY hour) a
    ON a.hour = d.hour
WHERE d.hour BETWEEN $first AND $last AND (d.is_new OR $everything OR coalesce(a.rows, 0) <> c.adjustments)
"""
_CLOSED = (
    "UPDATE closed_hours SET adjustments = (SELECT count(*) FROM adjustments a WHERE a.hour = closed_hours.hour) "
    "WHERE list_contains($hours::BIGINT[], hour)",
    "INSERT INTO closed_hours BY NAME SELECT h.hour, $now_us AS closed_at, $rates AS rates_version, "
    "(SELECT count(*) FROM adjustments a WHERE a.hour = h.hour) AS adjustments "
    "FROM (SELECT unnest($hours::BIGINT[]) AS hour) h ANTI JOIN closed_hours c ON c.hour = h.hour",
    # Another digest has the lake's copy of the day replaced, and pages made anew.
    "UPDATE ledger_hours SET input_digest = split_part(input_digest, ' terms ', 1) || ' terms ' || "
    "(SELECT count(*) FROM adjustments a WHERE a.hour = ledger_hours.hour) || ' ' || "
    "(SELECT count(*) FROM charge_corrections r WHERE r.hour = ledger_hours.hour) "
    "WHERE list_contains($hours::BIGINT[], hour)",
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What is charged to whom, the digest of both files, by what the ledger is judged and priced, what else costs."""

    rates: Sequence[Charge]
    version: str
    rules: str
    prices: str
    beside: Rates


class ChargeKey(NamedTuple):
    """What is charged together, and rounded to the millionth."""

    hour: int
    team: str | None
    cost_centre: str | None
    sku: str | None
    purchase_option: str | None


class KeySum(NamedTuple):
    """What the ledger (`recorded_at` 0) or one correction of it says of a key; `unpriced`: a part has no price."""

    recorded_at: int
    milliseconds: int
    cost_micros: int | None
    unpriced: bool


def close_runs(session: Session) -> None:
    """Write down whose the runs of final hours are, as the pass before has left them: a pass does so first.

    What was edited since is then a correction, as a price would be.
    """
    if _has_final(session):
        due = f"SELECT hour {_FINAL} AND hour NOT IN (SELECT hour FROM closed_hours)"
        session.execute(_RUNS.format(hours=due, join="JOIN"))


def close_terms(session: Session, terms: Terms, now_us: int) -> int:
    """Close the hours that are final, and correct closed ones; return how many adjustments that made."""
    if not _has_final(session):
        return 0
    with session.transaction():
        before = session.rows("SELECT terms_version, runs_digest FROM terms_applied")
        now = (terms.version, _runs_digest(session))
        edited = before != [now]
        is_of_rates = bool(before) and _charges(before[0][0]) != _charges(terms.version)
        session.execute(_DUE, {"everything": edited})
        spans = _spans(session)
    made = 0
    for first, last in spans:
        with session.transaction():
            made += _close_span(session, terms, (first, last), now_us, edited=edited, is_of_rates=is_of_rates)
    if edited:
        with session.transaction():
            session.execute("DELETE FROM terms_applied")
            now = (terms.version, _runs_digest(session))
            session.load("terms_applied", ("terms_version", "runs_digest"), [now])
    return made


def _has_final(session: Session) -> bool:
    return bool(session.row(f"SELECT EXISTS ({_FINAL})")[0])


def _runs_digest(session: Session) -> str:
    """Return a digest of whose the runs are that began in closed hours."""
    (digest,) = session.row(
        "SELECT count(*) || ' ' || coalesce(bit_xor(hash(hash(run_id, team, cost_centre, project))), 0) FROM runs "
        f"WHERE started_at <= (SELECT max(hour) {_FINAL}) + 3600000000"
    )
    return str(digest)


def _spans(session: Session) -> list[tuple[int, int]]:
    hours = [hour for (hour,) in session.rows("SELECT hour FROM terms_due ORDER BY hour")]
    return spans(session, hours, _GPU_HOURS, least_hours=24)


def _close_span(
    session: Session, terms: Terms, span: tuple[int, int], now_us: int, *, edited: bool, is_of_rates: bool
) -> int:
    asked: dict[str, object] = {"first": span[0], "last": span[1]}
    here = f"SELECT hour FROM terms_due WHERE hour BETWEEN {span[0]} AND {span[1]}"
    session.execute(_RUNS.format(hours=here, join="LEFT JOIN"))
    versions = {"rules": terms.rules, "prices": terms.prices, "reason": _MOVED, "now_us": now_us}
    run_sql(session, "prices/moved.sql", **asked, **versions)
    (moved,) = session.row("SELECT count(*) FROM moved")
    hours = dict(session.rows(_CHARGED, asked | {"everything": edited}))
    if any(hours.values()):
        session.execute(_NODES, asked)
        close_rates(session, terms.beside)
    changed = _charge(session, hours, terms, now_us, is_of_rates=is_of_rates)
    (adjusted,) = session.row(
        "SELECT coalesce(list(d.hour), []) FROM terms_due d LEFT JOIN closed_hours c USING (hour) LEFT JOIN "
        "(SELECT hour, count(*) AS rows FROM adjustments WHERE hour BETWEEN $first AND $last GROUP BY hour) a "
        "USING (hour) WHERE d.hour BETWEEN $first AND $last AND coalesce(a.rows, 0) IS DISTINCT FROM c.adjustments",
        asked,
    )
    if touched := sorted({*changed, *adjusted}):
        for statement in _CLOSED:
            names = {"hours": touched, "now_us": now_us, "rates": terms.beside.version}
            session.execute(statement, {name: value for name, value in names.items() if f"${name}" in statement})
    return 2 * int(moved)


def _charges(terms_version: str) -> str:
    """Return the version of the charge rates in that of the terms: edited.terms_version()."""
    return terms_version.partition(" ")[2]


def _charge(session: Session, hours: Mapping[int, bool], terms: Terms, now_us: int, *, is_of_rates: bool) -> set[int]:
    """Charge hours, by whether they are new; return those of which anything was written."""
    rates = terms.rates
    if not hours:
        return set()
    asked: dict[str, object] = {"hours": [*hours], "first": min(hours), "last": max(hours)}
    told, charged = statements("prices/closed_charges.sql")
    parts: dict[ChargeKey, list[KeySum]] = {}
    for row in session.rows(told, asked):
        parts.setdefault(ChargeKey(*row[:5]), []).append(KeySum(*row[5:]))
    before = {ChargeKey(*row[:5]): (row[5], row[6]) for row in session.rows(charged, {"hours": [*hours]})}
    closed, corrections = [], []
    for key, each in parts.items():
        booked = [part for part in each if part.recorded_at == 0]
        if hours[key.hour]:
            base = _charged(key, booked, rates)
            if base is not None and base != _cost(booked):
                closed.append((*key, base))
            corrections += [(at, *key, more) for at, more in _learned(key, each, rates, base or 0)]
            continue
        base, more = before.get(key, (None, 0))
        paid = (_cost(booked) if base is None else base) + more
        owed = _charged(key, each, rates) or 0
        if owed != paid:
            corrections.append((now_us, *key, owed - paid))
    session.load("closed_charges", (*ChargeKey._fields, "charged_micros"), closed)
    rows = [(*row, is_of_rates) for row in corrections]
    session.load("charge_corrections", ("recorded_at", *ChargeKey._fields, "charged_micros", "is_of_rates"), rows)
    return {row[0] for row in closed} | {row[1] for row in corrections}


def _learned(key: ChargeKey, parts: Sequence[KeySum], rates: Sequence[Charge], base: int) -> Iterator[tuple[int, int]]:
    """Yield by how much more is charged by each correction that was made before the hour closed."""
    paid = base
    for count, part in enumerate(parts, 1):
        owed = _charged(key, parts[:count], rates) or 0
        if part.recorded_at and owed != paid:
            yield part.recorded_at, owed - paid
            paid = owed


def _charged(key: ChargeKey, parts: Sequence[KeySum], rates: Sequence[Charge]) -> int | None:
    """Return what is charged for these parts together; None where no rate and no price is known."""
    learned = [part for part in parts if part.recorded_at and part.cost_micros is not None]
    cost = None if any(part.unpriced for part in parts) and not learned else _cost(parts)
    milliseconds = sum(part.milliseconds for part in parts)
    held = HeldHour(key.team, True, key.sku, key.purchase_option, key.hour, milliseconds, cost)
    return charged_micros(held, rates)


def _cost(parts: Iterable[KeySum]) -> int:
    return sum(part.cost_micros or 0 for part in parts)
