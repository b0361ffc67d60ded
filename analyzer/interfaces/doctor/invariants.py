"""Hold a store to the ledger's invariants: what is off, counted, and whether anything is."""

from dataclasses import asdict, dataclass

from agent.wire.units import HOUR_US
from analyzer.findings.ledger_findings import findings
from analyzer.ledger.pending import know_fleet
from analyzer.ledger.thresholds import Thresholds
from analyzer.prices.price_book import price_book
from analyzer.queries.ledger_query import ledger_sums
from analyzer.queries.statements import run as run_sql
from analyzer.queries.statements import stood
from analyzer.settings.settings import Settings
from analyzer.states import BOOKINGS, LOSABLE
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant: how much was held to it, and how far off it is; 0 is right."""

    name: str
    about: str
    checked: int
    off: int
    unit: str

    @property
    def is_right(self) -> bool:
        """True where nothing is off."""
        return self.off == 0


def examine(session: Session, settings: Settings) -> list[Check]:
    """Return every check; hours that may still change are left out."""
    know_fleet(session, Thresholds())
    run_sql(session, "interfaces/doctor.sql")
    return [
        _time(session),
        _money(session, settings),
        _rows(session),
        _words(session),
        _lost(session),
        _findings(session),
        _adjustments(session),
        _receipts(session),
    ]


def as_json(checks: list[Check]) -> dict[str, object]:
    """Return the checks as JSON's types."""
    return {
        "right": all(check.is_right for check in checks),
        "checks": [asdict(check) | {"right": check.is_right} for check in checks],
    }


def _time(session: Session) -> Check:
    hours, off = session.row(
        "SELECT count(*), coalesce(sum(abs(owned_ms - booked_ms)), 0)::BIGINT FROM owned_and_booked"
    )
    return Check("conservation", "every owned millisecond is booked exactly once", hours, off, "milliseconds")


def _money(session: Session, settings: Settings) -> Check:
    """Compare each GPU-hour's cost with the price of what is owned in it, by the prices in force now."""
    book = price_book(settings)
    kinds = session.rows(
        f"""
        SELECT l.sku, l.purchase_option, h.node_group, h.region, l.hour, l.gpu_uuid, sum(l.milliseconds)::BIGINT,
            sum(l.cost_micros)::BIGINT
        FROM ledger l {stood("l.node", "l.hour")} WHERE l.price_version IS NOT DISTINCT FROM ? AND l.hour IN (
            SELECT hour FROM ledger_hours WHERE status <> 'provisional')
        GROUP BY ALL
        """,
        [book.version],
    )
    off = 0
    rates: dict[tuple[object, ...], int | None] = {}
    for sku, option, group, region, hour, _, milliseconds, cost in kinds:
        kind = (sku, option, group, region, hour)
        if kind not in rates:
            price = book.price(sku, option, hour, group, region)
            rates[kind] = price.micros_per_gpu_hour if price else None
        rate = rates[kind]
        due = None if rate is None else (2 * milliseconds * rate + 3_600_000) // 7_200_000
        off += abs((due or 0) - (cost or 0))
    return Check("money", "costs sum to the price of what is owned", len(kinds), off, "millionths")


def _rows(session: Session) -> Check:
    rows, off = session.row(
        "SELECT count(*), count(*) FILTER (milliseconds <= 0 OR coalesce(cost_micros, 0) < 0) FROM ledger"
    )
    return Check("rows", "no row is empty or negative", rows, off, "rows")


def _words(session: Session) -> Check:
    known = {(b.state, b.cause) for b in BOOKINGS}
    seen = session.rows("SELECT state, cause, count(*) FROM ledger GROUP BY ALL")
    off = sum(rows for state, cause, rows in seen if (state, cause) not in known)
    return Check("words", "every state and cause is one that people are shown", len(seen), off, "rows")


def _lost(session: Session) -> Check:
    seen = session.rows("SELECT would_be, count(*) FROM ledger WHERE state = 'lost_work' GROUP BY ALL")
    off = sum(rows for would_be, rows in seen if would_be not in LOSABLE)
    return Check("lost work", "lost is only what was work", sum(rows for _, rows in seen), off, "rows")


def _findings(session: Session) -> Check:
    """Findings share no GPU-second and leave none out: at stake, they sum to what is avoidable."""
    first, last = session.row("SELECT coalesce(min(hour), 0), coalesce(max(hour), 0) FROM ledger_hours")
    found = [finding for finding in findings(session, first, last + HOUR_US) if not finding.suspicion]
    avoidable = {(b.state, b.cause) for b in BOOKINGS if b.klass == "avoidable"}
    due = sum(one.milliseconds for one in ledger_sums(session, "state", "cause") if one.keys in avoidable)
    off = abs(due - sum(finding.milliseconds for finding in found))
    return Check("findings", "findings sum to what is avoidable", len(found), off, "milliseconds")


def _adjustments(session: Session) -> Check:
    """Time moved by an adjustment is taken where it is given, unless what is owned was corrected."""
    (rows,) = session.row("SELECT count(*) FROM adjustments")
    (off,) = session.row(
        "SELECT coalesce(sum(abs(adjusted_ms)), 0)::BIGINT FROM owned_and_booked WHERE booked_ms <> owned_ms"
    )
    return Check("adjustments", "an adjustment creates no time", rows, off, "milliseconds")


def _receipts(session: Session) -> Check:
    batches, off = session.row("SELECT count(*), count(*) - count(DISTINCT (stream, sequence)) FROM receipts")
    return Check("batches", "each batch counts once", batches, off, "batches")
