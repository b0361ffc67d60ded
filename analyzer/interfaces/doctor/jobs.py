"""The jobs that keep the ledger and the store: which failed, and which have not run for long."""

from collections.abc import Iterator

from agent.wire.units import DAY_SECONDS, SECOND_US
from analyzer.interfaces.doctor.sight import CheckLine, Section, Sight, count, length_words, minute_words, some
from collector.errors import StoreError
from collector.lake.keeper import JobState, states
from collector.store.booking import FIRST, newest
from collector.store.books import days_doubled

_OLD_ANALYSIS_SECONDS = DAY_SECONDS
_LATE_SECONDS = 2 * DAY_SECONDS  # every job is due within a day


def jobs(sight: Sight) -> Section:
    """Return the lines on jobs."""
    return Section("JOBS", (*_analysis(sight), *_upkeep(sight)))


def _analysis(sight: Sight) -> Iterator[CheckLine]:
    if sight.live is not None and sight.live.analysis_error is not None:
        yield CheckLine("bad", f"the last analysis failed: {sight.live.analysis_error}", "the server's log says more")
    yield from _booking(sight)
    rows = sight.session.rows("SELECT analysed_at FROM analysis")
    if not rows:
        if not sight.session.rows(f"SELECT 1 FROM {sight.receipts} LIMIT 1"):
            yield CheckLine("note", "nothing has arrived that could be analysed")
            return
        remedy = (
            "gpuledger serve does so, or gpuledger admin analyze" if sight.live is None else "the next pass does so"
        )
        yield CheckLine("note", "nothing has been analysed yet", remedy)
        return
    age = max(0.0, (sight.now_us - rows[0][0]) / SECOND_US)
    old = age > _OLD_ANALYSIS_SECONDS
    remedy = "see whether a server runs on this store" if old else ""
    yield CheckLine("note" if old else "ok", f"the ledger was brought up to date {length_words(age)} ago", remedy)


def _booking(sight: Sight) -> Iterator[CheckLine]:
    """Say which of several analyzers books into the lake; a site with one has nothing to hear of it."""
    if sight.live is not None and sight.live.held is not None:
        yield CheckLine("ok", sight.live.held)
    if sight.live is not None and sight.live.books_since is not None:
        yield CheckLine(
            "ok", f"this one books into the lake since {minute_words(sight.live.books_since)} UTC, and no other"
        )
    if sight.store.lake is None:
        return
    at = newest(sight.session)
    if sight.live is None and sight.store.lake.file is None and at.booking != FIRST:
        age = max(0.0, (sight.now_us - at.booked_at) / SECOND_US)
        yield CheckLine("ok", f"{at.holder} booked into the lake last, {length_words(age)} ago")
    if days := days_doubled(sight.session):
        named = some([minute_words(day)[:10] for day in days])
        what = f"the lake's books have hours of {count(len(days), 'day')} twice: {named}"
        yield CheckLine(
            "bad", what, "the next pass of the analyzer that has the ledger in its hot file puts them right"
        )


def _upkeep(sight: Sight) -> Iterator[CheckLine]:
    try:
        known = states(sight.session)
    except StoreError:
        known = {}
    if not known:
        yield CheckLine("note", "no maintenance job has run on this store yet")
        return
    wrong = list(_wrong(sight, known))
    yield from wrong
    if not wrong:
        yield CheckLine("ok", f"{count(len(known), 'maintenance job')} went well")


def _wrong(sight: Sight, known: dict[str, JobState]) -> Iterator[CheckLine]:
    for name, state in sorted(known.items()):
        if state.outcome == "failed":
            yield CheckLine("bad", f"{name} failed: {state.said}", "it is tried again; the server's log says more")
        elif state.succeeded_at and sight.now_us - state.succeeded_at > _LATE_SECONDS * SECOND_US:
            ago = length_words((sight.now_us - state.succeeded_at) / SECOND_US)
            yield CheckLine("bad", f"{name} last went well {ago} ago", "see whether a server runs on this store")
