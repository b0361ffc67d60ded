"""What recommendations are wanted by the settings of a site; what takes long is made once a generation in a server."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from analyzer.api.generation import ByGeneration
from analyzer.placement.fleet_plan import plans
from analyzer.placement.grounds import Grounds
from analyzer.placement.outcome.learned import learned_shares
from analyzer.placement.proposal import Proposal
from analyzer.placement.saving import Share
from analyzer.placement.site import Site
from analyzer.placement.wanted import Wanted

if TYPE_CHECKING:
    from analyzer.config import Settings
    from collector.store.session import Session

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wanting:
    """Makes what readings of recommendations ask for. `kept` is None where one command reads once."""

    settings: "Settings"
    kept: ByGeneration | None = None

    def of_run(self, session: "Session") -> Wanted:
        """Return what a run's page asks for: what answers its findings, without samples, notices or a plan."""
        return Wanted(is_of_fleet=False, realised=self.realised(session))

    def of_fleet(self, session: "Session") -> Wanted:
        """Return what the list of the fleet asks for.

        Raises:
            ConfigError: the price file cannot be read.
        """
        plan = self._plan if self.settings.advising.plan_seconds else None
        return Wanted(True, self.settings.price_book(), plan, self.realised(session))

    def realised(self, session: "Session") -> Mapping[str, Share]:
        """Return the shares that realised savings show, by kind; none where the settings do not want them used."""
        if not self.settings.advising.learn_shares:
            return {}
        return self._once(session, "shares", lambda: learned_shares(session))

    def _plan(self, session: "Session", site: Site, start_us: int, end_us: int) -> Sequence[tuple[Grounds, Proposal]]:
        seconds = self.settings.advising.plan_seconds
        made = ("plan", start_us, end_us)
        return self._once(session, made, lambda: plans(session, site, start_us, end_us, seconds))

    def _once(self, session: "Session", what: Hashable, make: Callable[[], T]) -> T:
        return make() if self.kept is None else self.kept.get(session, what, make)
