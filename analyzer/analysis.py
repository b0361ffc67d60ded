"""Make the ledger: which days need it, then each in turn: count in SQL, judge in Python, book and price in SQL.

The unit is the UTC day, always judged whole, so that the same input gives the same ledger however it arrived.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer import days as day_choice
from analyzer.closing import close_hours
from analyzer.config import Settings
from analyzer.judging import judge_day
from analyzer.publishing import publish_day, rates_of_day
from analyzer.run_facts import write_runs
from analyzer.stages.book import count_day, write_stages
from analyzer.starting import find_starts
from analyzer.statements import run as run_sql
from analyzer.states import LOSABLE
from analyzer.thresholds import Thresholds
from analyzer.windows import WINDOW_MS, RunFacts

if TYPE_CHECKING:
    from collector.store.database import Store
    from collector.store.session import Session

DAY_MS = 86_400_000
MARGIN_MS = day_choice.MARGIN_US // 1000

Progress = Callable[[int, int], None]  # days done, days in all


@dataclass(frozen=True, slots=True)
class Analysis:
    """What one pass did."""

    days: int
    hours: int
    rows: int
    adjustments: int


def analyze(
    store: "Store",
    settings: Settings,
    *,
    now_us: int,
    made_at_us: int | None = None,
    limits: Thresholds | None = None,
    bucket_ms: int = WINDOW_MS,
    progress: Progress | None = None,
) -> Analysis:
    """Bring the ledger up to date with everything the store knows, and return what was done.

    `now_us` is the caller's clock: it decides which hours are closed, never what is in them. `made_at_us` is when the
    pass is made, where that is another time: an import of history closes nothing. `bucket_ms` is how finely
    the runs' timelines are kept.
    """
    limits = limits or Thresholds()
    book = settings.price_book()
    with store.session() as session:
        run_sql(session, "fleet.sql")
        with session.transaction():
            facts = write_runs(session, settings.team_book())
            close_hours(session, settings, now_us, provisional=False)
        versions = day_choice.Versions(limits.version, book.version)
        pending = day_choice.pending(session, versions)
        if pending.days:
            with session.transaction():
                _find_lost_work(session, pending.days, limits)
        rows = adjustments = hours = 0
        for done, day_ms in enumerate(pending.days, 1):
            with session.transaction():
                _book_day(session, day_ms, bucket_ms, facts, limits)
                count_day(session, day_ms, settings.timezone, limits)
                rates_of_day(session, book)
                run_sql(session, "cost.sql")
                written = publish_day(session, day_ms, settings, versions, now_us)
            hours, rows, adjustments = hours + written.hours, rows + written.rows, adjustments + written.adjustments
            if progress is not None:
                progress(done, len(pending.days))
        with session.transaction():
            close_hours(session, settings, now_us, provisional=True)
            write_stages(session)
            session.execute("DELETE FROM analysis")
            made_at = now_us if made_at_us is None else made_at_us
            session.load("analysis", ("analysed_batch", "analysed_at"), [[b, made_at] for b in pending.up_to_batches])
    return Analysis(len(pending.days), hours, rows, adjustments)


def _find_lost_work(session: "Session", days: list[int], limits: Thresholds) -> None:
    """Find the last checkpoint of every failed attempt that touches these days; it may lie days before the failure."""
    run_sql(session, "failed.sql", from_ms=days[0], until_ms=days[-1] + DAY_MS)
    first_ms, last_ms = session.row("SELECT coalesce(min(from_ms), 0), coalesce(max(until_ms), 0) FROM failed")
    for day_ms in range(first_ms // DAY_MS * DAY_MS, last_ms, DAY_MS):
        span = {"from_us": day_ms * 1000, "until_us": (day_ms + DAY_MS) * 1000}
        run_sql(session, "failed_samples.sql", **span)
        _find_checkpoints(session, span["from_us"], span["until_us"], limits)
        run_sql(session, "watched.sql")
        session.execute("DROP TABLE of_interest")
    run_sql(session, "lost_from.sql")


def _find_checkpoints(session: "Session", from_us: int, until_us: int, limits: Thresholds) -> None:
    run_sql(
        session,
        "checkpoints.sql",
        from_us=from_us,
        until_us=until_us,
        checkpoint_bytes_per_gpu=limits.checkpoint_bytes_per_gpu,
        checkpoint_dip_permille=limits.checkpoint_dip_permille,
    )


def _book_day(session: "Session", day_ms: int, bucket_ms: int, facts: dict[str, RunFacts], limits: Thresholds) -> None:
    from_ms, until_ms = day_ms, day_ms + DAY_MS
    span = {"from_us": from_ms * 1000, "until_us": until_ms * 1000}
    cut_pieces(session, from_ms, until_ms, limits)
    session.execute(
        "CREATE OR REPLACE TEMP VIEW of_interest AS SELECT * FROM pieces WHERE rid IS NOT NULL AND fixed IS NULL AND up"
    )
    _find_checkpoints(session, span["from_us"], span["until_us"], limits)
    session.execute("DROP VIEW of_interest")
    run_sql(
        session,
        "yardstick.sql",
        **span,
        active_permille=limits.active_permille,
        yardstick_permille=limits.yardstick_permille,
    )
    count_work(session, from_ms, until_ms, bucket_ms, limits)
    judge_day(session, day_ms, facts, limits)
    run_sql(session, "unwatched.sql", **span)
    run_sql(session, "booking.sql", bucket_ms=bucket_ms, gap_ms=limits.gap_ms, losable=sorted(LOSABLE), **span)


def cut_pieces(session: "Session", from_ms: int, until_ms: int, limits: Thresholds) -> None:
    """Fill `slices` and `pieces`: owned time cut by what is known beforehand, samples cut by that."""
    run_sql(
        session,
        "samples.sql",
        from_us=(from_ms - MARGIN_MS) * 1000,
        until_us=(until_ms + MARGIN_MS) * 1000,
        quiet_permille=limits.quiet_permille,
        quiet_ms=limits.quiet_ms,
        active_permille=limits.active_permille,
        begun_permille=limits.begun_permille,
        warm_up_ms=limits.warm_up_ms,
    )
    _find_dips(session, limits)
    find_starts(session, from_ms, until_ms, limits)
    run_sql(
        session,
        "slices.sql",
        from_ms=from_ms,
        until_ms=until_ms,
        starting_ms=limits.starting_ms,
        held_mb=limits.held_mb,
        abandoned_ms=limits.abandoned_ms,
    )
    run_sql(session, "pieces.sql")


def _find_dips(session: "Session", limits: Thresholds) -> None:
    """Find the stand-stills that only samples finer than a second can show; most fleets have none such."""
    (is_fine,) = session.row(
        """
        SELECT EXISTS (
            SELECT 1 FROM narrow WHERE zero IS NULL AND utilization IS NOT NULL AND until_ms - from_ms < 1000)
        """
    )
    run_sql(session, "dips.sql" if is_fine else "no_dips.sql", dip_samples=limits.dip_samples)


def count_work(session: "Session", from_ms: int, until_ms: int, bucket_ms: int, limits: Thresholds) -> None:
    """Fill `work` and `run_windows_here`: what each run's GPUs did, and what its hosts did meanwhile."""
    run_sql(
        session,
        "windows.sql",
        from_us=from_ms * 1000,
        until_us=until_ms * 1000,
        full_permille=limits.full_permille,
        spinning_permille=limits.spinning_permille,
        deadband_permille=limits.deadband_permille,
        slowed_permille=limits.slowed_permille,
        decode_permille=limits.decode_permille,
        bucket_ms=bucket_ms,
    )
