"""Which GPUs this host should have: those it has had, those its kernel knows, those its operator expects.

A GPU that died while no agent ran is in nobody's list any more. It is remembered, so that it is missed.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from agent.attribution.kernels_gpus import kernels_gpus
from agent.gpu.nvidia.listing import Listed, Silence
from agent.gpu.nvidia.pci import fallen_gpus
from agent.source import Row
from agent.state_file import StateFile

_LOG = logging.getLogger(__name__)
SECTION = "gpus"
_FORGET_SECONDS = 7 * 86_400.0  # of the driver listing all its GPUs without one that was there
_TOLD = ("gpu_index", "sku", "pci_bus_id")
_MOST_REMEMBERED = 128


class ExpectedDevices:
    """Remembers GPUs by UUID with their place, and since when (seconds since 1970) they are missing.

    A GPU that no agent has seen, and that cannot tell its UUID, is known by the driver's index, as a slot is that was
    bought before its GPU is known: `<node>/slot3`. `places` says where on the bus such a GPU sits, where that is plain.

    A missing GPU is forgotten when another sits in its place, when the driver lists as many GPUs as the operator
    expects, or after a week in which the driver listed all it has without it.
    """

    def __init__(
        self,
        state_file: StateFile,
        expected_gpus: int,
        proc: Path,
        wall_seconds: Callable[[], float],
        sys: Path = Path("/sys"),
        node: str = "",
    ) -> None:
        self._state_file = state_file
        self._expected = expected_gpus
        self._proc = proc
        self._wall_seconds = wall_seconds
        self._sys = sys
        self._node = node
        self._known: dict[str, dict[str, object]] = {
            uuid: _believed(entry) for uuid, entry in state_file.section(SECTION).items() if isinstance(entry, dict)
        }
        self._missed: set[str] = set()
        self._listed: frozenset[str] | None = None
        self._silent: Mapping[int, Silence] = {}
        self._nameless: Mapping[str, Silence] = {}
        self.places: Mapping[str, str] = {}
        self._count = 0

    @property
    def expected(self) -> int:
        """How many GPUs this host should have."""
        known = self._known.keys() | (self._listed or frozenset())
        return max(self._expected, self._count, len(known) + len(self._nameless))

    @property
    def missing(self) -> Collection[str]:
        """The UUIDs of GPUs that were here once and are not listed now; none before the driver listed any."""
        listed = self._listed
        return [] if listed is None else sorted(self._known.keys() - listed)

    @property
    def absent(self) -> Mapping[str, Silence]:
        """Why each GPU is silent that should be here and does not tell its name: the missing, and the nameless.

        What the driver does not count is lost. Of several that it counts the index tells which is which.
        """
        kinds = set(self._silent.values())
        only: Silence = kinds.pop() if len(kinds) == 1 else "unknown"
        missing = {uuid: self._silence(uuid, only) if self._silent else "lost" for uuid in self.missing}
        return {**missing, **self._nameless}

    def update(self, now: Listed, facts: Mapping[str, Row]) -> Collection[str]:
        """Take what the driver lists now, with what is known of it, and return the UUIDs that are forgotten with it.

        One of the GPUs that the driver counts may be too ill to tell its UUID, which the kernel may know.
        """
        listed, count, complete = now.gpus.keys(), now.count, now.complete
        kernels = kernels_gpus(self._proc)
        self._count = max(count, len(kernels))
        for uuid in sorted(listed)[:_MOST_REMEMBERED]:
            told = facts.get(uuid) or self._known.get(uuid, {})
            self._known[uuid] = {**{name: told.get(name) for name in _TOLD}, "missing_since": None}
        strangers = {one.uuid: one.bus_id for one in kernels if one.uuid is not None and one.uuid not in listed}
        if len(strangers) == count - len(listed):  # else the kernel has GPUs that this process may not see
            for stranger, place in strangers.items():
                self._known.setdefault(stranger, {"pci_bus_id": place})
        self._listed, self._silent = frozenset(listed), now.silent
        forgotten = [uuid for uuid in self.missing if self._is_to_forget(uuid, self._listed, complete)]
        self._known = {uuid: entry for uuid, entry in self._known.items() if uuid not in forgotten}
        for uuid in forgotten:
            _LOG.info("%s is no longer missed", uuid)
        self._name(now, [one.bus_id for one in kernels])
        self._log_missing()
        self._state_file.keep(SECTION, {uuid: dict(entry) for uuid, entry in self._known.items()})
        return forgotten

    def _silence(self, uuid: str, otherwise: Silence) -> Silence:
        index = self._known[uuid].get("gpu_index")
        return self._silent.get(index, otherwise) if isinstance(index, int) else otherwise

    def _name(self, now: Listed, kernels: Sequence[str]) -> None:
        """Give a name to each GPU that tells none and is none of the missing.

        Those that the driver counts have its index; those that the bus alone shows come after all that are known.
        """
        before, self._nameless, self.places = self._nameless, {}, {}
        if 0 < self._expected <= len(now.gpus):
            return
        entries = [self._known[uuid] for uuid in self.missing]
        taken = {entry.get("pci_bus_id") for entry in self._known.values()}
        fallen = [place for place in fallen_gpus(self._sys) if place not in taken]
        fallen = fallen[sum(entry.get("pci_bus_id") is None for entry in entries) :]  # which may be these
        counted = sorted(now.silent.keys() - {entry.get("gpu_index") for entry in entries})
        counted = counted[sum(entry.get("gpu_index") not in now.silent for entry in entries) :]
        uncounted = range(max(0, len(fallen) - len(counted)))
        first = now.count + len(entries) - (len(now.silent) - len(counted))
        silent: dict[int, Silence] = {index: now.silent[index] for index in counted}
        silent |= {first + number: "lost" for number in uncounted}
        places = sorted({*fallen, *(place for place in kernels if counted and place not in taken)})
        self._nameless = {self._slot(index): why for index, why in silent.items()}
        if len(places) == len(silent):
            self.places = dict(zip(self._nameless, places, strict=True))
        for name in self._nameless.keys() - before.keys():
            _LOG.warning(
                "GPU %s%s does not tell its name (%s); reset it or the host", name, self.at(name), self._nameless[name]
            )

    def at(self, name: str) -> str:
        """Return where a GPU without a name sits on the bus, in words; empty where nobody knows."""
        return f" at {self.places[name]}" if name in self.places else ""

    def _slot(self, index: int) -> str:
        return f"{self._node}/slot{index}"

    def _is_to_forget(self, uuid: str, listed: Collection[str], complete: bool) -> bool:
        entry = self._known[uuid]
        places = {self._known[other].get("pci_bus_id") for other in listed if other in self._known}
        if entry.get("pci_bus_id") in places - {None} or 0 < self._expected <= len(listed):
            return True
        now, since = self._wall_seconds(), entry.get("missing_since")
        if not complete or not isinstance(since, (int, float)) or since > now:
            entry["missing_since"] = now if complete else None
            return False
        return now - since >= _FORGET_SECONDS

    def _log_missing(self) -> None:
        for uuid in set(self.missing) - self._missed:
            entry = self._known[uuid]
            _LOG.warning(
                "GPU lost: %s (%s at %s) was here and is not listed by the driver; reset it or the host, "
                "or set expected_gpus to what this host has",
                uuid,
                entry.get("sku"),
                entry.get("pci_bus_id"),
            )
        self._missed = set(self.missing)


def _believed(entry: Mapping[str, object]) -> dict[str, object]:
    """Return what can be used of an entry of the file, which anybody may have edited."""
    return {
        name: value for name in (*_TOLD, "missing_since") if isinstance(value := entry.get(name), (str, int, float))
    }
