"""When each agent was last heard: who is silent is the first thing to know of a fleet, and costs no query."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily

from agent.wire.units import DAY_US

if TYPE_CHECKING:
    from collector.store.session import Session

_MOST_AGENTS = 200_000  # the one that was heard longest ago is forgotten first
FORGOTTEN_SECONDS = 7 * 86_400  # a host that has been silent for a week has left
SILENT_SECONDS = 300
NAMED = 20  # of those that are silent; their number is told whole
WITHIN = (15, 30, 60, 120, 300, 900, 3600, 86_400)
_PREFIX = "gpuledger_collector"


@dataclass(frozen=True, slots=True)
class Ages:
    """How long ago agents were heard, in seconds: how many within each bound, how many longer, and the most silent."""

    known: int
    within: dict[int, int]
    silent: int
    longest: tuple[tuple[str, float], ...]


class Freshness:
    """The agents of one collector; any thread may tell and ask."""

    def __init__(self, most: int = _MOST_AGENTS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._heard: OrderedDict[str, int] = OrderedDict()

    def heard(self, agent: str, at_us: int) -> None:
        """Note that a batch of an agent came."""
        with self._lock:
            self._heard[agent] = max(at_us, self._heard.get(agent, 0))
            self._heard.move_to_end(agent)
            while len(self._heard) > self._most:
                self._heard.popitem(last=False)

    def remember(self, session: "Session", now_us: int) -> None:
        """Learn from the receipts who was heard within a day, so that a restart does not make the silent ones vanish.

        Raises:
            StoreError: the store does not answer.
        """
        rows = session.rows(
            "SELECT agent, max(received_at) AS heard FROM receipts WHERE received_at > ? GROUP BY agent ORDER BY heard",
            [now_us - DAY_US],
        )
        for agent, at_us in rows:
            self.heard(agent, at_us)

    def ages(self, now_us: int) -> Ages:
        """Return how long ago agents were heard; those silent for a week are forgotten."""
        with self._lock:
            gone = [agent for agent, at in self._heard.items() if now_us - at > FORGOTTEN_SECONDS * 1_000_000]
            for agent in gone:
                del self._heard[agent]
            known = list(self._heard.items())
        ages = [((now_us - at) / 1e6, agent) for agent, at in known]
        silent = sorted(
            ((age, agent) for age, agent in ages if age > SILENT_SECONDS), key=lambda each: (-each[0], each)
        )
        within = {bound: sum(age <= bound for age, _ in ages) for bound in WITHIN}
        return Ages(len(ages), within, len(silent), tuple((agent, age) for age, agent in silent[:NAMED]))


class FreshnessPage:
    """The families of /metrics; of silent agents only the most silent are named, so that the page has an end."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ages = Ages(0, dict.fromkeys(WITHIN, 0), 0, ())
        registry.register(self)

    def show(self, ages: Ages) -> None:
        """Show these from now on."""
        self._ages = ages

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return what prometheus_client asks for."""
        return list(self._families(self._ages))

    def _families(self, ages: Ages) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(f"{_PREFIX}_agents", "Agents that were heard within a week.", ages.known)
        yield GaugeMetricFamily(
            f"{_PREFIX}_agents_silent", f"Of them not heard for {SILENT_SECONDS} seconds.", ages.silent
        )
        heard = GaugeMetricFamily(
            f"{_PREFIX}_agents_heard", "Agents heard within so many seconds.", labels=["within_seconds"]
        )
        for bound, count in ages.within.items():
            heard.add_metric([str(bound)], count)
        yield heard
        longest = GaugeMetricFamily(
            f"{_PREFIX}_silent_agent_age_seconds",
            f"Since when the {NAMED} agents that are silent longest were not heard.",
            labels=["agent"],
        )
        for agent, age in ages.longest:
            longest.add_metric([agent], age)
        yield longest
