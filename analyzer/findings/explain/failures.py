"""What stored facts say of GPUs that a finding calls broken, and of work that it calls lost: those have no windows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.findings.explain.gpu_samples import kept_row
from analyzer.findings.explain.signs import Sign, hours_words, length_words, percent
from analyzer.findings.finding import Finding
from analyzer.ledger.thresholds import Thresholds
from analyzer.period import Period
from analyzer.queries.statements import statements

if TYPE_CHECKING:
    from collector.store.session import Session

# As attempts end that lose their work (failed.sql): by cause the words of their schedulers.
_ENDINGS = {
    "failed": ("failed", "timeout", "out_of_memory"),
    "preempted": ("preempted",),
    "node_failed": ("node_failed",),
}
# A minute of a tier says how much of it the driver had lost the GPU, and how much it answered.
_MINUTES = """UNION ALL
    SELECT coalesce(parent_uuid, gpu_uuid), started_at, measured_ms, down_ms
    FROM gpu_minutes WHERE started_at >= $start AND started_at < least($end, $rolled)
        AND node IN (SELECT unnest($nodes::VARCHAR[]))"""
_NOT_REPORTED = "not reported"


@dataclass(frozen=True, slots=True)
class BrokenGpus:
    """GPU milliseconds that a finding calls broken, and what is known of them; None where nothing is kept of them.

    Of `told_ms` samples are kept: `lost_ms` the driver said that they are gone. `down_ms` their host was down for its
    scheduler. The hours of the ledger that are claimed are compared whole.
    """

    claimed_ms: int
    told_ms: int | None
    lost_ms: int | None
    down_ms: int | None


@dataclass(frozen=True, slots=True)
class LostWork:
    """How runs ended that lost their work, and how long before that the last checkpoint was seen (milliseconds).

    `unsaved_ms` is since the attempt began where none was; of several runs it is that which lost most, `lost_ms`.
    """

    attempts: int
    ended_so: int
    lost_ms: int
    unsaved_ms: int | None
    saved: bool


def broken_signs(session: "Session", finding: Finding, period: Period, limits: Thresholds) -> tuple[Sign, ...]:
    """Return the signs of broken GPUs: the driver's word, or the scheduler's and that none of its GPUs answered.

    Raises:
        StoreError: the store does not answer.
    """
    found = _broken(session, finding, period)
    needed = f"{percent(limits.covered_permille)} or more"
    if finding.cause == "gpu_lost":
        return (_share("lost to the driver", found.lost_ms, found.told_ms, needed, limits.covered_permille),)
    if finding.cause != "node_down":
        return ()
    down = _share("down for its scheduler", found.down_ms, found.claimed_ms, needed, limits.covered_permille)
    least = 1000 - limits.covered_permille
    if not found.told_ms or found.lost_ms is None:
        return down, Sign("its GPUs answered", "never", f"{percent(least)} or less", True)
    answered = 1000 * (found.told_ms - found.lost_ms) // max(found.claimed_ms, found.told_ms)
    seen = f"{percent(answered)} of {hours_words(found.claimed_ms)}"
    return down, Sign("its GPUs answered", seen, f"{percent(least)} or less", answered <= least)


def lost_signs(session: "Session", finding: Finding, period: Period) -> tuple[Sign, ...]:
    """Return the signs of lost work: how the attempts ended, and that nothing was saved in the time that is lost.

    Raises:
        StoreError: the store does not answer.
    """
    endings = _ENDINGS[finding.cause]
    asked = {
        "runs": list(finding.run_ids),
        "cause": finding.cause,
        "endings": list(endings),
        "start": period.start,
        "end": period.end,
    }
    (select,) = statements("findings/explain/lost.sql")
    found = LostWork(*session.row(select, asked))
    words = " or ".join(ending.replace("_", " ") for ending in endings)
    ended = Sign(
        f"ended as {words}",
        f"{found.ended_so:,} of {found.attempts:,} attempts",
        "all of them",
        found.ended_so == found.attempts if found.attempts else None,
    )
    what = "last checkpoint before the end" if found.saved else "no checkpoint; began before the end"
    needed = f"{length_words(found.lost_ms // 60_000)} or more"
    if found.unsaved_ms is None:
        return ended, Sign(what, _NOT_REPORTED, needed, None)
    return ended, Sign(what, length_words(found.unsaved_ms // 60_000), needed, found.unsaved_ms >= found.lost_ms)


def _share(what: str, part: int | None, whole: int | None, needed: str, mark: int) -> Sign:
    if part is None or not whole:
        return Sign(what, _NOT_REPORTED, needed, None)
    share = 1000 * part // whole
    return Sign(what, f"{percent(share)} of {hours_words(whole)}", needed, share >= mark)


def _broken(session: "Session", finding: Finding, period: Period) -> BrokenGpus:
    return BrokenGpus(*kept_row(session, "findings/explain/broken.sql", _MINUTES, finding, period))
