"""What the collector remembers of hosts that send under keys of their own: since when, and which GPUs are theirs."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from collector.pipeline.decoding.own_word import Host

if TYPE_CHECKING:
    from collector.registry.homes import Homes

_MOST_HOSTS = 100_000
_FRESH_SECONDS = 3600.0  # after which the registry is asked anew: a GPU may have been moved
_REFUSED_SECONDS = 60.0  # for which a GPU of another host is not asked about again


class HostBook:
    """Remembers hosts; the registry is asked of what is new alone. `learn` may wait for it: not on an event loop."""

    def __init__(self, homes: "Homes", clock: Callable[[], float] = time.monotonic) -> None:
        self._homes = homes
        self._clock = clock
        self._hosts: OrderedDict[str, tuple[float, Host]] = OrderedDict()
        self._refused: dict[str, tuple[float, frozenset[str]]] = {}

    def known(self, node: str) -> Host | None:
        """Return a host that was heard before; None where the registry must say."""
        at, host = self._hosts.get(node, (0.0, None))
        return host if host is not None and self._clock() - at < _FRESH_SECONDS else None

    def settled(self, node: str, gpus: Collection[str]) -> Host | None:
        """Return the host where nothing in a batch with these GPUs is new; None where the registry must say."""
        host = self.known(node)
        if host is None:
            return None
        at, refused = self._refused.get(node, (0.0, frozenset[str]()))
        return host if host.gpus.union(refused if self._clock() - at < _REFUSED_SECONDS else ()) >= set(gpus) else None

    def learn(self, node: str, sent_at: int, gpus: Collection[str]) -> Host:
        """Ask the registry, note there what nobody has told of before, and return the host.

        Raises:
            RegistryError: it does not answer.
        """
        known = self.known(node)
        asked = {*gpus, *(known.gpus if known is not None else ())}
        homes = self._homes.claim(node, asked, time.time_ns() // 1000)
        first = self._homes.first_heard(node, sent_at) if known is None else known.first_sent_at
        host = Host(node, first, frozenset(gpu for gpu, home in homes.items() if home == node))
        now = self._clock()
        self._hosts[node] = now, host
        self._hosts.move_to_end(node)
        if len(self._hosts) > _MOST_HOSTS:
            self._refused.pop(self._hosts.popitem(last=False)[0], None)
        refused = asked - host.gpus
        if refused:
            self._refused[node] = now, frozenset(refused)
        else:
            self._refused.pop(node, None)
        return host
