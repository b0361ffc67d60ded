"""What is made before anybody asks, for whom, and in which order: what is seen at once by most comes first."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from analyzer.interfaces.api.scope import Scope
from dashboards.pages.answering import Answering
from dashboards.pages.health import unjudged
from dashboards.pages.money import money
from dashboards.pages.placement import VIEWS, placement
from dashboards.pages.read_pages import ReadPages

if TYPE_CHECKING:
    from dashboards.page_cache.disk_cache import DiskCache
    from dashboards.pages.pages import Pages
    from dashboards.server.report_route import Reports

_Making = Iterator[Callable[[], object]]
_WHOLE = Scope()


class PrefetchOrder:
    """The views of one site: of the whole of it, then of those whose keys opened a page lately."""

    def __init__(
        self, own: "Pages", pages: ReadPages, reports: "Reports", answering: Answering, disk_cache: "DiskCache | None"
    ) -> None:
        self._own = own
        self._pages = pages
        self._reports = reports
        self._answering = answering
        self._shelf = disk_cache

    def first(self) -> _Making:
        """Yield what makes each page that is opened first, as far as it is seen at once."""
        if self._shelf is not None:
            yield self._shelf.follow
        yield from self._own.first(_WHOLE)
        for shown in (money(), placement()):
            yield partial(self._pages.ahead, shown, _WHOLE)

    def rest(self) -> _Making:
        """Yield what makes the rest: parts, what they lead to, the week's report; then each other view that was seen.

        Findings come last: pages that lay on the shelf have read none, and whatever is opened next needs them.
        """
        yield partial(self._pages.ahead, unjudged(), _WHOLE)
        yield from self._own.rest(_WHOLE)
        for view in VIEWS:
            yield partial(self._pages.ahead, placement(view=view), _WHOLE)
        yield self._reports.ahead
        for scope in self._answering.seen():
            yield from self._of(scope)
        yield partial(self._pages.read_ahead, lambda reading: reading.findings(reading.reader.period(None)))

    def _of(self, scope: Scope) -> _Making:
        """Yield the pages of one view; those of the whole site alone are none of a team's."""
        for shown in (money(), *(placement(view=view) for view in VIEWS)):
            yield partial(self._pages.ahead, shown, scope)
        if scope.teams is None:
            yield partial(self._pages.ahead, unjudged(), scope)
            yield from self._own.first(scope)
            yield from self._own.rest(scope)
