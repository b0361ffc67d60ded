"""Keep the book of recommendations: after a pass of the analysis, what is new of a whole week or day, once each.

What is recommended for a week is written down when the week is first known whole; each day it is looked at which
changes were made, while their hosts' samples are still there. Nothing is counted up, and every row has a key that
follows from what it says: a pass that is cut off is made good by the next, and two analyzers write one book.
"""

from typing import TYPE_CHECKING

from analyzer.believed import believing
from analyzer.errors import LedgerError
from analyzer.placement.life.detect import Applied, applied
from analyzer.placement.life.kept import add_applied, add_predictions, begin_turn, book, predictions
from analyzer.placement.life.predict import predicted
from analyzer.placement.life.shapes import first_drained, first_given_back, shapes
from analyzer.placement.life.standing import Seen, Standing
from analyzer.reading import Reader
from analyzer.report.coverage import hours, newest_hour_end
from collector.store.books import mirror_findings

if TYPE_CHECKING:
    from analyzer.config import Settings
    from analyzer.period import Period
    from collector.store.database import Store
    from collector.store.session import Session

DAY_US = 86_400_000_000
LOOK_BACK_US = 56 * DAY_US  # eight weeks before a proposal: what ran earlier was perhaps another thing
LOOK_ON_US = 91 * DAY_US  # a quarter after it: what nobody did by then was not done for it
DRAINED = ("cool", "drain", "drain_sick_gpu", "scale_in")  # kinds that are made on hosts, and of no run
RELEASE, LOCAL_NVME = "release", "local_nvme"


def keep_recommendations(store: "Store", settings: "Settings", now_us: int) -> int:
    """Write down what is recommended for the last whole week, and which changes were made; return how many rows.

    Weeks before it are left alone: what is recommended of them now is no prediction any more.

    Raises:
        StoreError: the store or the lake refuses.
    """
    with believing(store) as session:
        newest = newest_hour_end(session)
        if newest is None:
            return 0
        with session.transaction():
            new = _keep_week(Reader(session, settings), now_us)
            if begin_turn(session, f"day {newest // DAY_US * DAY_US}", now_us):
                new += look_for_applied(session, newest, now_us)
    mirror_findings(store)
    return new


def _keep_week(reader: Reader, now_us: int) -> int:
    try:
        week = reader.period(None)
    except LedgerError:
        return 0
    if not _is_whole(reader, week) or not begin_turn(reader.session, f"week {week.start}", now_us):
        return 0
    found, realised = reader.findings(week), reader.wanting.realised(reader.session)
    advice = reader.advice(found, week)
    return add_predictions(reader.session, predicted(reader.session, advice, found, week, now_us, realised))


def _is_whole(reader: Reader, week: "Period") -> bool:
    """Whether a week is known whole, and its hours no longer wait for late telemetry."""
    known = hours(reader.session, week)
    return known.complete and known.status not in (None, "provisional")


def look_for_applied(session: "Session", until_us: int, now_us: int) -> int:
    """Write down which changes that nobody rejected were made by then; return how many."""
    new = 0
    last_made = {one.recommendation_id: one.span.end for one in predictions(session)}  # in order of their periods
    for one in book(session):
        if one.stage in ("proposed", "accepted") and until_us - last_made[one.id] <= LOOK_ON_US:
            found = find_applied(session, one, until_us)
            if found is not None:
                add_applied(session, one.id, Seen(found.applied_at, found.by_run, found.seen), now_us)
                new += 1
    return new


def find_applied(session: "Session", one: Standing, until_us: int) -> Applied | None:
    """Return when the change that is recommended was made, as far as runs and hosts show it."""
    prediction = one.prediction
    proposed = prediction.span.end
    if prediction.kind in DRAINED:
        drained = first_drained(session, prediction.nodes, proposed, until_us)
        return None if drained is None else Applied(*drained, f"{drained[1]} is out of its scheduler")
    if prediction.kind == RELEASE and len(prediction.run_ids) == 1:
        (run_id,) = prediction.run_ids
        given_back = first_given_back(session, run_id, proposed, until_us)
        return None if given_back is None else Applied(given_back, run_id, "it gave back GPUs")
    start, is_about_reads = prediction.span.start - LOOK_BACK_US, prediction.kind == LOCAL_NVME
    placed = shapes(session, prediction.name, prediction.team, start, until_us, with_reads=is_about_reads)
    before = [shape for shape in placed if shape.started_at < proposed]
    after = [shape for shape in placed if shape.started_at >= proposed]
    return applied(prediction.kind, before, after, prediction.nodes)
