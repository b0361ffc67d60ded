"""Make pages before anybody asks: after the start, and after each pass of the analysis. Nobody waits for it.

What most people see at once is made first. While a pass is under way the rest waits: its end would void it anyway, and
the pass is to have the processors for itself.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from analyzer.errors import AnalyzerError
from analyzer.interfaces.api.parameters import BusyError
from analyzer.interfaces.api.request_service import Scope
from collector.errors import CollectorError
from dashboards.disk_cache import DiskCache
from dashboards.pages.fleet import WARMED, FleetAsked, fleet, fleet_part, runs_in_view
from dashboards.pages.health import unjudged
from dashboards.pages.money import money
from dashboards.pages.placement import VIEWS, placement
from dashboards.pages.read_pages import ReadPage, ReadPages
from dashboards.pages.recommendations import recommendations
from dashboards.pages.run_page import PARTS, run_page, run_part_page, runs
from dashboards.server.report_route import Reports

_LOG = logging.getLogger(__name__)
MOST_SECONDS = 240.0  # of one turn: less than from one pass to the next
_LOOK_SECONDS = 0.2
_STOPPING_SECONDS = 10.0

_Making = Iterable[Callable[[], object]]
_Views = Callable[[], _Making]
_WHOLE = Scope()


class Prefetch:
    """Makes `first`, then `rest`, on a thread of its own, each time that somebody asks; one turn at a time.

    A turn that is asked for while another runs begins anew: what is of the present ledger already takes no time.
    """

    def __init__(self, first: _Views, rest: _Views, is_passing: Callable[[], bool]) -> None:
        self._first, self._rest = first, rest
        self._is_passing = is_passing
        self._asked, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="warming", daemon=True)
        self._is_turning = False
        self.turns = self.made = self.failed = 0

    def start(self) -> None:
        """Begin, with a turn of the ledger as it is."""
        self._asked.set()
        self._thread.start()

    def ask(self) -> None:
        """Have a turn made; returns at once."""
        self._asked.set()

    def stop(self) -> None:
        """End after the page that is being made."""
        self._ending.set()
        self._asked.set()
        if self._thread.is_alive():
            self._thread.join(_STOPPING_SECONDS)

    @property
    def is_asked(self) -> bool:
        """Whether another turn is due, or under way."""
        return self._asked.is_set() or self._is_turning

    def turn(self) -> bool:
        """Make one turn now; return whether it came to its end."""
        until = time.monotonic() + MOST_SECONDS
        try:
            return all(self._made(make, until) for make in self._views(until))
        except (AnalyzerError, CollectorError, BusyError) as error:
            self.failed += 1
            _LOG.info("pages are not made ahead: %s", error)
            return False

    def _views(self, until: float) -> Iterator[Callable[[], object]]:
        yield from self._first()
        self._lets_pass(until)
        for make in self._rest():
            self._lets_pass(until)
            yield make

    def _lets_pass(self, until: float) -> None:
        """Wait for the pass that is under way, if one is."""
        while self._is_passing() and not self._is_over(until):
            self._ending.wait(_LOOK_SECONDS)

    def _made(self, make: Callable[[], object], until: float) -> bool:
        if self._is_over(until):
            return False
        make()
        self.made += 1
        return True

    def _is_over(self, until: float) -> bool:
        """Whether the turn is to end: for good, for another that is asked for, or because it has taken long enough."""
        return self._asked.is_set() or time.monotonic() > until

    def _run(self) -> None:
        while not self._ending.is_set():
            self._asked.wait()
            self._asked.clear()
            if not self._ending.is_set():
                self._is_turning = True
                self.turn()
                self._is_turning = False
                self.turns += 1


@dataclass(frozen=True, slots=True)
class PrefetchOrder:
    """What is made ahead of one site: pages of the whole of it, then of those whose keys opened a page lately."""

    pages: ReadPages
    reports: Reports
    disk_cache: DiskCache | None

    def first(self) -> _Making:
        """Yield what makes each page that is opened first, as far as it is seen at once."""
        if self.disk_cache is not None:
            yield self.disk_cache.follow
        yield from self._ahead(_WHOLE, *_home(), money(), runs(), recommendations(), placement())

    def rest(self) -> _Making:
        """Yield what makes the rest: parts, what they lead to, the week's report; then each other view that was seen.

        Findings come last: pages that the server before kept have read none, and whatever is opened next needs them.
        """
        yield from self._ahead(_WHOLE, unjudged())
        yield from self._parts(_WHOLE)
        yield from self._ahead(_WHOLE, *(placement(view=view) for view in VIEWS))
        yield self.reports.ahead
        for scope in self.pages.seen():
            yield from self._ahead(scope, money(), runs(), recommendations(), *(placement(view=view) for view in VIEWS))
            of_site = (unjudged(), *_home()) if scope.teams is None else (fleet(FleetAsked()),)
            yield from self._ahead(scope, *of_site)
            yield from self._parts(scope)
        yield partial(self.pages.read_ahead, lambda context: context.reader.findings(context.reader.period(None)))

    def _ahead(self, scope: Scope, *shown: ReadPage) -> _Making:
        for page in shown:
            yield partial(self.pages.ahead, page, scope)

    def _parts(self, scope: Scope) -> _Making:
        """Yield what makes the parts of the overview, then the runs that it leads to; of a team those are few."""
        yield from self._ahead(scope, *(fleet_part(name, FleetAsked()) for name in WARMED))
        if scope.teams is not None:
            return
        for run_id in self.pages.read_ahead(lambda context: runs_in_view(context.whole)):
            yield from self._ahead(scope, run_page(run_id), *(run_part_page(run_id, name) for name in PARTS))


def _home() -> tuple[ReadPage, ReadPage]:
    return fleet(FleetAsked()), fleet(FleetAsked(at="week"))
