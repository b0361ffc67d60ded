"""Keep the book of recommendations: after a pass of the analysis, what is new of a whole week or day, once each.

What is recommended for a week is written down when the week is first known whole; each day it is looked at which
changes were made, while their hosts' samples are still there. Nothing is counted up, and every row has a key that
follows from what it says: a pass that is cut off is made good by the next, and two analyzers write one book.
"""

from agent.wire.units import DAY_US
from analyzer.errors import LedgerError
from analyzer.ledger.believed import believing
from analyzer.ledger.coverage import known_hours, newest_hour_end
from analyzer.period import Period
from analyzer.recommendations.lifecycle.applied import look_for_applied
from analyzer.recommendations.lifecycle.lifecycle_tables import add_predictions, begin_turn
from analyzer.recommendations.lifecycle.prediction import predicted
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings
from collector.store.books import mirror_findings
from collector.store.database import Store


def keep_recommendations(store: Store, settings: Settings, now_us: int) -> int:
    """Write down what is recommended for the last whole week, and which changes were made; return how many rows.

    Weeks before it are left alone: what is recommended of them now is no prediction any more.
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
    found, realised = reader.findings(week), reader.advice_options.realised(reader.session)
    advice = reader.advice(found, week)
    return add_predictions(reader.session, predicted(reader.session, advice, found, week, now_us, realised))


def _is_whole(reader: Reader, week: Period) -> bool:
    """Whether a week is known whole, and its hours no longer wait for late telemetry."""
    known = known_hours(reader.session, week)
    return known.complete and known.status not in (None, "provisional")
