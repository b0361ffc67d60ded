"""Book what is due, in chunks: count in SQL, judge in Python, book and price in SQL.

The unit is a GPU's hour: what an hour says depends on what lies up to half an hour beyond it, and on what its runs did
before, never on how a pass was cut or on when its input arrived.

Closed hours whose samples are gone are priced anew alone (`reprice`): what they are booked as stands.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from agent.wire.units import DAY_MS
from analyzer.ledger.causes.exchange import outdated_hours
from analyzer.ledger.causes.serving_policy import Service
from analyzer.ledger.classifier import classify_chunk
from analyzer.ledger.pending import GPU_HOURS, MARGIN_US, Chunk, Versions, complete, cut, spans, status_of_hour
from analyzer.ledger.precedence import booking_texts
from analyzer.ledger.run_facts import count_hours, find_starts
from analyzer.ledger.tables import BOOKED, ORDER, split
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunFacts
from analyzer.prices.price_book import PriceBook
from analyzer.queries.statements import Texts, run_with, stood
from analyzer.queries.statements import run as run_sql
from analyzer.settings.settings import Settings
from analyzer.states import LOSABLE
from collector.store.session import Session

_KINDS = f"""
SELECT DISTINCT o.sku, o.purchase_option, h.node_group, h.region, o.hour_ms * 1000
FROM owned_hours o JOIN gpus g USING (gid) {stood("g.node", "o.hour_ms * 1000")} ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class Published:
    """How much of a chunk was written."""

    hours: int
    gpu_hours: int
    rows: int
    adjustments: int


def rates_of(session: Session, book: PriceBook, kinds: str = _KINDS) -> None:
    """Fill the temporary table `rates` with the price of each kind of GPU in each hour; unknown prices stay null.

    `kinds` is the query that names them; without a word, those of a chunk.
    """
    session.execute(
        """
        CREATE OR REPLACE TEMP TABLE rates (
            sku VARCHAR, purchase_option VARCHAR, node_group VARCHAR, region VARCHAR, hour BIGINT, micros BIGINT,
            price_version VARCHAR)
        """
    )
    rows = [
        (sku, option, group, region, hour, price.micros_per_gpu_hour, price.version)
        for sku, option, group, region, hour in session.rows(kinds)
        if (price := book.price(sku, option, hour, group, region))
    ]
    columns = ("sku", "purchase_option", "node_group", "region", "hour", "micros", "price_version")
    session.load("rates", columns, rows)


def _publish_chunk(session: Session, chunk: Chunk, settings: Settings, versions: Versions, now_us: int) -> Published:
    """Write `priced` into the ledger and say what became of it."""
    told: dict[str, object] = {"rules": versions.rules, "prices": versions.prices, "now_us": now_us}
    told |= {"from_us": chunk.from_ms * 1000, "until_us": chunk.until_ms * 1000}
    run_with(session, "ledger/publish.sql", (("booked_columns", BOOKED), ("order", ORDER)), told)
    (known_us,) = session.row("SELECT until_us FROM known")
    hours = [hour for (hour,) in session.rows("SELECT DISTINCT hour FROM priced ORDER BY hour")]
    batch = session.row("SELECT coalesce(max(batch), 0) FROM receipts")[0]
    digest = f"{versions.rules} {versions.prices} {batch}"
    # Of an hour that is booked in parts, the last says so: a pass that is cut off before is made good by the next.
    columns = ("hour", "status", "input_digest", "rules_version", "price_version")
    if chunk.is_last:
        calendar = settings.calendar
        rows = [
            (hour, status_of_hour(hour, known_us, now_us, calendar), digest, versions.rules, versions.prices)
            for hour in hours
        ]
        session.load("ledger_hours", columns, rows, replace=True)
    (written,) = session.row("SELECT count(*) FROM priced")
    (adjusted,) = session.row("SELECT count(*) FROM differences")
    (gpu_hours,) = session.row("SELECT count(*) FROM chunk")
    return Published(len(hours), gpu_hours, written, adjusted)


_SPLIT = (("split", split("ledger_here", "cost_micros")),)
_MARGIN_MS = MARGIN_US // 1000
_ROUNDS = 4  # an hour's rate of exchange can change what others were judged by; two rounds settle it

Progress = Callable[[int, int], None]  # chunks done, chunks in all


@dataclass(frozen=True, slots=True)
class Analysis:
    """What one pass did. `hours` counts an hour once for every part in which it was booked, `gpu_hours` each GPU's."""

    hours: int = 0
    gpu_hours: int = 0
    rows: int = 0
    adjustments: int = 0

    def __add__(self, more: Published) -> "Analysis":
        return Analysis(
            self.hours + more.hours,
            self.gpu_hours + more.gpu_hours,
            self.rows + more.rows,
            self.adjustments + more.adjustments,
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """By what a pass judges and prices, and how finely it keeps the runs' timelines."""

    settings: Settings
    limits: Thresholds
    book: PriceBook
    bucket_ms: int
    now_us: int
    versions: Versions  # what is written beside every hour


def book_all(
    session: Session,
    facts: Mapping[str, RunFacts],
    services: Sequence[Service],
    rules: Rules,
    progress: Progress | None,
) -> Analysis:
    """Book what is due, and then what that makes due: exchanges across racks, once more is known of the fabric."""
    done = Analysis()
    for _ in range(_ROUNDS):
        chunks = cut(session)
        if not chunks:
            return done
        with session.transaction():
            _find_lost_work(session, rules.limits)
        for number, chunk in enumerate(chunks, 1):
            done += _book_chunk(session, chunk, facts, services, rules)
            if progress is not None:
                progress(number, len(chunks))
        with session.transaction():
            hours = outdated_hours(session, chunks[0].from_ms * 1000)
        _make_due(session, hours)
    return done


def _make_due(session: Session, hours_us: list[int]) -> None:
    """Fill `due` with the GPUs of runs across racks in these hours."""
    session.execute(
        """
        CREATE OR REPLACE TEMP TABLE due AS
        SELECT DISTINCT h.gid, t.hour // 1000 AS hour_ms
        FROM (SELECT unnest(?::BIGINT[]) AS hour) t
        JOIN holds h ON h.from_ms < t.hour // 1000 + 3600000 AND h.until_ms > t.hour // 1000
        JOIN run_summary s ON s.rid = h.rid AND s.racks > 1
        """,
        [hours_us],
    )
    session.execute("DELETE FROM whole")
    complete(session)


def _find_lost_work(session: Session, limits: Thresholds) -> None:
    """Find the last checkpoint of every failed attempt that is touched; it may lie days before the failure."""
    run_sql(session, "ledger/failed.sql")
    first_ms, last_ms = session.row("SELECT coalesce(min(from_ms), 0), coalesce(max(until_ms), 0) FROM failed")
    for day_ms in range(first_ms // DAY_MS * DAY_MS, last_ms, DAY_MS):
        span = {"from_us": day_ms * 1000, "until_us": (day_ms + DAY_MS) * 1000}
        run_sql(
            session,
            "ledger/failed_samples.sql",
            **span,
            active_permille=limits.active_permille,
            begun_work_ms=limits.begun_work_ms,
        )
        _find_checkpoints(session, span["from_us"], span["until_us"], limits)
        run_sql(
            session,
            "ledger/watched.sql",
            **span,
            checkpoint_bytes_per_gpu=limits.checkpoint_bytes_per_gpu,
            small_state_bytes=limits.small_state_bytes,
        )
    run_sql(session, "ledger/lost_from.sql", steady_write_bytes=limits.steady_write_bytes)


def _find_checkpoints(session: Session, from_us: int, until_us: int, limits: Thresholds) -> None:
    run_sql(
        session,
        "ledger/checkpoints.sql",
        from_us=from_us,
        until_us=until_us,
        checkpoint_bytes_per_gpu=limits.checkpoint_bytes_per_gpu,
        checkpoint_dip_permille=limits.checkpoint_dip_permille,
    )


def _book_chunk(
    session: Session, chunk: Chunk, facts: Mapping[str, RunFacts], services: Sequence[Service], rules: Rules
) -> Published:
    """Book one chunk: what is counted goes into temporary tables, what is said of it into one transaction.

    The large tables are made outside of it, since DuckDB reads what is not committed yet with one thread alone. What
    little is kept before then (first work, checkpoints, activity) is the same in the pass that would make it good.
    """
    limits = rules.limits
    span = {"from_us": chunk.from_ms * 1000, "until_us": chunk.until_ms * 1000}
    run_sql(session, "ledger/chunk.sql", from_ms=chunk.from_ms, until_ms=chunk.until_ms, part=chunk.part, **span)
    _cut_pieces(session, chunk.from_ms, chunk.until_ms, limits)
    run_sql(session, "ledger/node_minutes.sql", active_permille=limits.active_permille)
    with session.transaction():
        _keep_habits(session, span, limits)
    _count_work(session, chunk.from_ms, chunk.until_ms, rules.bucket_ms, limits)
    with session.transaction():
        classify_chunk(session, chunk, facts, limits, services)
        count_hours(session, chunk, rules.settings.timezone, limits)
        run_sql(session, "ledger/unwatched.sql", **span)
        rules_of = {"bucket_ms": rules.bucket_ms, "gap_ms": limits.gap_ms, "losable": sorted(LOSABLE)}
        rules_of["one_core_least_milli"] = limits.one_core_least_milli
        run_with(session, "ledger/booking.sql", booking_texts(), span | rules_of)
        rates_of(session, rules.book)
        run_with(session, "ledger/cost.sql", _SPLIT, {})
        return _publish_chunk(session, chunk, rules.settings, rules.versions, rules.now_us)


def _keep_habits(session: Session, span: Mapping[str, int], limits: Thresholds) -> None:
    """Find checkpoints and the runs' yardsticks, and keep what both are made of."""
    _find_checkpoints(session, span["from_us"], span["until_us"], limits)
    run_sql(
        session,
        "ledger/yardstick.sql",
        **span,
        active_permille=limits.active_permille,
        yardstick_permille=limits.yardstick_permille,
    )


def _cut_pieces(session: Session, from_ms: int, until_ms: int, limits: Thresholds) -> None:
    """Fill `slices` and `pieces`: owned time cut by what is known beforehand, samples cut by that."""
    around = {"from_us": (from_ms - _MARGIN_MS) * 1000, "until_us": (until_ms + _MARGIN_MS) * 1000}
    run_sql(
        session,
        "ledger/samples.sql",
        **around,
        quiet_permille=limits.quiet_permille,
        quiet_ms=limits.quiet_ms,
    )
    with session.transaction():
        run_sql(
            session,
            "ledger/first_work.sql",
            **around,
            active_permille=limits.active_permille,
            begun_permille=limits.begun_permille,
            warm_up_ms=limits.warm_up_ms,
            starting_ms=limits.starting_ms,
            held_mb=limits.held_mb,
            quiet_permille=limits.quiet_permille,
        )
        _find_start_ends(session, from_ms, until_ms, limits)
        run_sql(
            session,
            "ledger/stuck.sql",
            from_us=from_ms * 1000,
            until_us=until_ms * 1000,
            quiet_permille=limits.quiet_permille,
            quiet_ms=limits.quiet_ms,
            stuck_kb_per_ms=limits.stuck_kb_per_ms,
        )
    _find_dips(session, limits)
    find_starts(session, from_ms, until_ms, limits)
    run_sql(
        session,
        "ledger/slices.sql",
        from_ms=from_ms,
        until_ms=until_ms,
        held_mb=limits.held_mb,
        abandoned_ms=limits.abandoned_ms,
        foreign_permille=limits.foreign_permille,
        foreign_millicores=limits.foreign_millicores,
    )
    run_sql(session, "ledger/pieces.sql", **around, first_ms=from_ms, last_ms=until_ms)
    session.execute("DROP TABLE ordered")
    _tell_sharers_apart(session, from_ms, until_ms, limits)


def _tell_sharers_apart(session: Session, from_ms: int, until_ms: int, limits: Thresholds) -> None:
    """Let rest in `pieces` what rested beside another run on the same GPU; most fleets share none."""
    (is_shared,) = session.row("SELECT EXISTS (SELECT 1 FROM slices WHERE is_shared AND rid IS NOT NULL)")
    if is_shared:
        span = {"from_us": from_ms * 1000, "until_us": until_ms * 1000}
        run_sql(session, "ledger/sharers.sql", **span, quiet_permille=limits.quiet_permille)


def _find_start_ends(session: Session, from_ms: int, until_ms: int, limits: Thresholds) -> None:
    """Fill `start_ends`, and keep what the next hour goes on from; in most chunks nothing starts for long."""
    span = {"from_ms": from_ms, "until_ms": until_ms, "starting_ms": limits.starting_ms}
    run_sql(session, "ledger/loading.sql", **span)
    if session.row("SELECT EXISTS (FROM loading)")[0]:
        run_sql(
            session,
            "ledger/load_signs.sql",
            **span,
            grown_mb=limits.grown_mb,
            grown_permille=limits.grown_permille,
            grown_last_ms=limits.grown_last_ms,
            loading_kb_per_ms=limits.loading_kb_per_ms,
            one_core_least_milli=limits.one_core_least_milli,
        )
    run_sql(session, "ledger/start_ends.sql", **span)


def _find_dips(session: Session, limits: Thresholds) -> None:
    """Find the stand-stills that only samples finer than a second can show; most fleets have none such."""
    (is_fine,) = session.row(
        """
        SELECT EXISTS (
            SELECT 1 FROM narrow WHERE zero IS NULL AND utilization IS NOT NULL AND until_ms - from_ms < 1000)
        """
    )
    run_sql(session, "ledger/dips.sql" if is_fine else "ledger/no_dips.sql", dip_samples=limits.dip_samples)


# What is joined to the windows of runs where there is any: to plan a join takes a millisecond, and most sites have few.
_BESIDE = {
    "process_windows": ("workers", "busiest", "waiting", "cores_of_processes", "gpus_alive"),
    "cgroup_windows": (
        "cores_of_cgroup",
        "cores_milli",
        "cpu_throttled",
        "pressure_io",
        "pressure_cpu",
        "pressure_memory",
    ),
    "dip_windows": ("dips", "refills"),
    "data_waits": ("data_wait",),
    "decoder_windows": ("decoder",),
    "stuck_windows": ("stuck_gpus", "stuck_ms"),
    "stuck_beyond": ("stuck_on_ms", "gone_on"),
    "resting_windows": ("stopped_gpus", "resting_gpus", "resting_cores_milli"),
    "step_windows": ("steps",),
    "uneven_windows": ("uneven", "uneven_most"),
    "service_windows": (
        "requests",
        "requests_ms",
        "running_milli",
        "answering",
        "waiting_milli",
        "queued",
        "kv_cache",
        "kv_full",
        "slow",
    ),
}


def _beside(without_rows: AbstractSet[str]) -> Texts:
    """Return the columns beside the windows of runs, and the joins that bring those of which there is any."""
    columns = (
        f"NULL::BIGINT AS {name}" if table in without_rows else f"{table}.{name}"
        for table, names in _BESIDE.items()
        for name in names
    )
    joined = (f"LEFT JOIN {table} USING (rid, window_ms)" for table in _BESIDE if table not in without_rows)
    return (("beside", ", ".join(columns)), ("joined", " ".join(joined)))


def _count_work(session: Session, from_ms: int, until_ms: int, bucket_ms: int, limits: Thresholds) -> None:
    """Fill `work` and `run_windows_here`: what each run's GPUs did, and what its hosts did meanwhile."""
    span = {"from_us": from_ms * 1000, "until_us": until_ms * 1000}
    run_sql(session, "ledger/serving/windows.sql", kv_full_permille=limits.kv_full_permille, **span)
    counted = dict(
        **span,
        full_permille=limits.full_permille,
        spinning_permille=limits.spinning_permille,
        deadband_permille=limits.deadband_permille,
        slowed_permille=limits.slowed_permille,
        decode_permille=limits.decode_permille,
        wholly_spinning_permille=limits.wholly_spinning_permille,
        hang_utilization_permille=limits.hang_utilization_permille,
        held_mb=limits.held_mb,
        quiet_permille=limits.quiet_permille,
        spun_permille=limits.spun_permille,
        low_permille=limits.low_permille,
        exchange_short_permille=limits.exchange_short_permille,
        exchange_kb_per_ms=limits.exchange_kb_per_ms,
        apart_permille=limits.apart_permille,
        uneven_power_permille=limits.uneven_power_permille,
        bucket_ms=bucket_ms,
    )
    run_sql(session, "ledger/windows.sql", **counted)
    run_with(session, "ledger/run_windows.sql", _beside(session.without_rows), counted)


_DUE = """
CREATE OR REPLACE TEMP TABLE reprice_due AS
SELECT hour FROM ledger_hours
WHERE status IN ('closed', 'final') AND price_version IS DISTINCT FROM $prices AND hour < $judgeable
"""
_BOOKED = f"""
CREATE OR REPLACE TEMP TABLE booked_now AS
SELECT * EXCLUDE (milliseconds, cost_micros),
    sum(milliseconds)::BIGINT AS milliseconds, sum(cost_micros)::BIGINT AS cost_micros
FROM (
    SELECT {BOOKED} FROM ledger WHERE hour BETWEEN $first AND $last
    UNION ALL SELECT {BOOKED} FROM adjustments WHERE hour BETWEEN $first AND $last
) WHERE hour IN (SELECT hour FROM reprice_due) GROUP BY ALL HAVING sum(milliseconds) <> 0
"""
_SPLIT_ANEW = (("split", split("booked_now", "now_micros")),)
_KINDS_ANEW = f"""
SELECT DISTINCT b.sku, b.purchase_option, h.node_group, h.region, b.hour
FROM booked_now b {stood("b.node", "b.hour")} ORDER BY ALL
"""


def reprice(session: Session, book: PriceBook, versions: Versions, judgeable_us: int, now_us: int) -> int:
    """Write what closed hours before `judgeable_us` would cost by this book as adjustments; return how many.

    Without a price file nothing is: nobody says then that another price holds.
    """
    if not book.version or not judgeable_us:
        return 0
    session.execute(_DUE, {"prices": versions.prices, "judgeable": judgeable_us})
    hours = [hour for (hour,) in session.rows("SELECT hour FROM reprice_due ORDER BY hour")]
    made = 0
    for first, last in spans(session, hours, GPU_HOURS):
        span: dict[str, object] = {"first": first, "last": last}
        with session.transaction():
            session.execute(_BOOKED, span)
            rates_of(session, book, _KINDS_ANEW)
            told = {"rules": versions.rules, "prices": versions.prices, "now_us": now_us}
            run_with(session, "ledger/repriced.sql", _SPLIT_ANEW, span | told)
            (changed,) = session.row(
                "SELECT count(*) FROM repriced WHERE coalesce(now_micros, 0) <> coalesce(cost_micros, 0)"
            )
            made += int(changed)
    return made
