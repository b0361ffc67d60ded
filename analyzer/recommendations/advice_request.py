"""What recommendations are read for: one run, from the ledger and the facts alone, or the fleet with all that it has.

A run's page must come at once, however much is kept: it asks what answers the run's findings. The list of the fleet
also looks at notices, at samples, at what nobody uses, and at a plan of all runs together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analyzer.findings.health.all_notices import PeriodNotices, notices_in
from analyzer.prices.price_book import PriceBook
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.saving import Share
from analyzer.recommendations.site import Site
from analyzer.recommendations.trigger import Trigger

if TYPE_CHECKING:
    from collector.store.session import Session

# Plans the whole fleet in [start, end), microseconds UTC: the moves, each a change of its own.
_FleetPlan = Callable[["Session", Site, int, int], Sequence[tuple[Trigger, Proposal]]]
# What is worth a look in [start, end).
_Look = Callable[["Session", int, int], PeriodNotices]


@dataclass(frozen=True, slots=True)
class AdviceRequest:
    """Which recommendations are wanted, and by what they are made.

    `prices` is the site's book, for what the fleet does not own. `plan` is None where no plan of the fleet is wanted.
    `realised` are shares by kind that take the place of assumed ones, once enough cases show them. `look` finds
    notices, or has them.
    """

    is_of_fleet: bool = True
    prices: PriceBook = field(default_factory=PriceBook)
    plan: _FleetPlan | None = None
    realised: Mapping[str, Share] = field(default_factory=dict)
    look: _Look = notices_in


OF_FLEET = AdviceRequest()
