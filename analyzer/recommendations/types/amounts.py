"""What proposals save that stand on no finding: an amount of their own, from what was measured, or nothing at all."""

from analyzer.recommendations.proposal import Saved
from analyzer.recommendations.recommendation import Range
from analyzer.recommendations.saving import Share, recovered
from analyzer.recommendations.site import Placed, Site

# What prevents a loss, or is booked in another finding, claims no second twice.
NONE = Range(0, 0, 0)
NOTHING = Saved(NONE, NONE)


def of_runs(runs: list[Placed], site: Site, share: Share) -> Saved:
    """Return a share of what runs held in the period, as an amount in the span that savings are told of."""
    period = site.end_us - site.start_us
    micros = [one.held_micros for one in runs]
    total = None if None in micros else sum(each or 0 for each in micros)
    return Saved(
        recovered(sum(one.held_ms or 0 for one in runs), period, share),
        None if total is None else recovered(total, period, share),
    )


def money_of_runs(runs: list[Placed], site: Site, share: Share) -> Saved:
    """Return a share of what runs cost in the period, and no GPU time: the same hours, at another price."""
    return Saved(NONE, of_runs(runs, site, share).micros)
