"""What serving stacks say themselves: /metrics of vLLM, Triton and TGI, read into `service_samples`."""

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from urllib.parse import SplitResult

from agent.attribution.evidence import Process, named_run_id, user_name
from agent.attribution.run import V2, Attribution, controller_paths, unified_root
from agent.connection import PORTS, address, ask
from agent.errors import ConfigError, SourceError
from agent.procfs import difference
from agent.source import Reading, Row, Value
from agent.sources.process_table import lineage, process_of
from agent.sources.service_page import Page, histogram_delta, quantile, read_page
from agent.sources.sockets import CgroupRuns, Listener, behind, listeners
from agent.watchdog_thread import WatchdogThread

# The services that the settings name: `URL`, `run=URL`, and `;slo=0.5` behind either.
_PATH = "/metrics"
_SERVICES_MAX = 32  # each has a thread
_SLO_SECONDS_MAX = 3600.0


@dataclass(frozen=True, slots=True)
class Service:
    """One address that is read. `run_id` is None where the settings do not say whose it is."""

    scheme: str
    host: str
    port: int
    path: str
    run_id: str | None = None
    slo_seconds: float | None = None  # promised for the time to the first token, at the 99th percentile

    @property
    def url(self) -> str:
        """The address as people write it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def declared_services(entries: Iterable[str], node: str) -> tuple[Service, ...]:
    """Return the services of the setting `services`.

    Raises:
        ConfigError: an entry is not an address, or there are too many.
    """
    services = tuple(_service(entry, node) for entry in entries)
    if len(services) > _SERVICES_MAX:
        raise ConfigError(
            f"agent.services has {len(services)} addresses; the maximum number per agent is {_SERVICES_MAX}"
        )
    return services


def _service(entry: str, node: str) -> Service:
    head, *options = entry.split(";")
    name, equals, url = head.partition("=")
    if not equals or head.startswith(("http:", "https:")):
        name, url = "", head
    parts = _split(url, entry)
    return Service(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or PORTS[parts.scheme],
        path=(parts.path if parts.path not in ("", "/") else _PATH) + (f"?{parts.query}" if parts.query else ""),
        run_id=named_run_id(name, node),
        slo_seconds=_slo(options, entry),
    )


def _split(url: str, entry: str) -> SplitResult:
    try:
        parts = address(url)
    except ValueError as error:
        raise ConfigError(_not_one(entry)) from error
    if parts.username is not None or not url.isascii() or " " in url:
        raise ConfigError(_not_one(entry))
    return parts


def _slo(options: list[str], entry: str) -> float | None:
    slo: float | None = None
    for option in options:
        key, _, value = option.partition("=")
        try:
            slo = float(value)
        except ValueError as error:
            raise ConfigError(_not_one(entry)) from error
        if key.strip() != "slo" or not 0 < slo <= _SLO_SECONDS_MAX:
            raise ConfigError(_not_one(entry))
    return slo


def _not_one(entry: str) -> str:
    return (
        f"agent.services has {entry!r}: expected the form http://127.0.0.1:8000, myrun=http://127.0.0.1:8000 "
        "or …;slo=0.5"
    )


PAGE_BYTES_MAX = 2 * 2**20
_WHOLE_SECONDS = 5.0  # for all of it, however slowly it trickles


def fetch(service: Service, ca_file: Path | None = None, seconds: Callable[[], float] = time.monotonic) -> str:
    """Return the page. Redirects and proxies are not followed: the agent talks to whom it was told, and nobody else.

    Raises:
        SourceError: it cannot be had, is too large or too slow.
    """
    try:
        reply = ask(
            service.url,
            headers={"Accept": "text/plain", "Accept-Encoding": "identity"},
            timeout_seconds=_WHOLE_SECONDS,
            most_bytes=PAGE_BYTES_MAX,
            authority=ca_file,
            clock=seconds,
        )
    except OSError as error:
        raise SourceError(f"{service.url} cannot be read ({error or type(error).__name__})") from error
    if reply.status != HTTPStatus.OK:
        raise SourceError(
            f"{service.url} returned {reply.status}; agent.services must have the address of its /metrics"
        )
    if not reply.is_whole:
        raise SourceError(f"{service.url} is larger than {PAGE_BYTES_MAX} bytes")
    return reply.body.decode("utf-8", "replace")


# Whose run a service is, where the settings do not say: that of the processes behind its port.
class Owners:
    """Finds the run behind a port of this host, by the cgroup of who listens.

    That is the run that a scheduler made the cgroup for; else, within a container or a unit of its own, the run of the
    GPU's holders in the same cgroup and of the same user, if it is one. `run_of` says whose run a process is,
    `run_of_cgroup` whose a cgroup is, None where no scheduler made it.
    """

    def __init__(
        self,
        node: str,
        proc: Path,
        sys: Path,
        run_of: Callable[[Process], Attribution],
        run_of_cgroup: Callable[[str], str | None],
        holders: Callable[[], Collection[int]],
        ask: Callable[[], list[Listener]] = listeners,
    ) -> None:
        self._node = node
        self._proc = proc
        self._sys = sys
        self._run_of = run_of
        self._cgroups = CgroupRuns(sys, run_of_cgroup)
        self._holders = holders
        self._ask = ask
        self._known: dict[Service, str] = {}

    def run_of(self, service: Service) -> str:
        """Return the run of a service, or a name of its own, which holds no GPU, where none can be told.

        While the kernel does not say who listens it is whose it was.
        """
        nobody = f"service/{self._node}/{service.host}:{service.port}"
        try:
            listener = behind(service.host, service.port, self._ask())
        except (SourceError, ValueError):
            return self._known.get(service, nobody)
        found = None if listener is None or listener.cgroup is None else self._run(listener, listener.cgroup)
        self._known[service] = found or nobody
        return self._known[service]

    def _run(self, listener: Listener, cgroup: int) -> str | None:
        scheduled = self._cgroups.runs({cgroup}).get(cgroup)
        if scheduled is not None:
            return scheduled
        held = {self._run_of(process).run_id for process in self._holding(listener.uid, cgroup)}
        return held.pop() if len(held) == 1 else None

    def _holding(self, uid: int, cgroup: int) -> list[Process]:
        processes = (process_of(self._proc, lineage(self._proc, pid)) for pid in self._holders())
        return [
            process
            for process in processes
            if process is not None and process.owner == user_name(uid) and self._inode(process) == cgroup
        ]

    def _inode(self, process: Process) -> int | None:
        path = controller_paths(process.cgroup).get(V2)
        try:
            return None if path is None else os.stat(f"{unified_root(self._sys)}{path}").st_ino  # noqa: PTH116  paths of the kernel's, joined as it writes them
        except OSError:
            return None


def row(run_id: str, before: Page | None, now: Page, slo_seconds: float | None) -> Row:
    """Return what a service did between two pages; amounts and percentiles are unknown on the first.

    They are unknown, all of them, where any counter fell too: the service was started again, and what it had done
    until then is not known.
    """
    said: dict[str, Value] = {"run_id": run_id, "engine": now.engine, "model": now.model, "slo_seconds": slo_seconds}
    said |= now.now
    if before is None or before.engine != now.engine:
        return said
    # A counter that was not there yet stood at 0: some clients show it from the first event on.
    amounts = {
        column: difference(round(before.counters.get(column, 0)), round(value))
        for column, value in now.counters.items()
    }
    if None in amounts.values():
        return said
    said |= amounts
    if before.first_token and now.first_token and (buckets := histogram_delta(before.first_token, now.first_token)):
        said["first_token_seconds_p50"] = quantile(buckets, 0.5)
        said["first_token_seconds_p99"] = quantile(buckets, 0.99)
    return said


_LOG = logging.getLogger(__name__)
_PERIOD_SECONDS = 10.0
_PATIENCE_SECONDS = 0.05  # with all services; a slower one is told with the next reading
_PERIODS_OF_AMOUNTS = 2.5  # older than so many, a page is no beginning of what is told as one interval


class Followed:
    """One service: the page that was told last, and the question that is under way.

    `run_of` says whose run it is; `failures` counts the pages that could not be had.
    """

    def __init__(self, service: Service, fetch: Callable[[Service], str], run_of: Callable[[Service], str]) -> None:
        self.service = service
        self.failures = 0
        self._run_of = run_of
        self._thread: WatchdogThread[tuple[str, Page]] = WatchdogThread(
            f"service-{service.port}", partial(self._ask, fetch)
        )
        self._is_asked = False
        self._failing = False
        self._last: tuple[float, Page] | None = None

    def begin(self) -> None:
        """Ask for the page, unless that is still under way."""
        if not self._is_asked:
            self._thread.begin()
            self._is_asked = True

    def row(self, timeout_seconds: float, now: float, oldest: float) -> Row | None:
        """Return what came within so long, or None; amounts only since a page that is no older than `oldest`."""
        if not self._is_asked or not self._thread.ready(timeout_seconds):
            return None
        self._is_asked = False
        try:
            run_id, page = self._thread.answer(0)
        except SourceError as error:
            self._fails(str(error))
            return None
        if self._failing:
            _LOG.info("%s can be read again", self.service.url)
        self._failing = False
        before = self._last[1] if self._last is not None and self._last[0] >= oldest else None
        self._last = now, page
        return row(run_id, before, page, self.service.slo_seconds)

    def close(self) -> None:
        """End the thread."""
        self._thread.close()

    def _ask(self, fetch: Callable[[Service], str]) -> tuple[str, Page]:
        page = read_page(fetch(self.service))
        if page is None:
            raise SourceError(f"{self.service.url} is not a metrics page of vLLM, Triton or TGI")
        return self.service.run_id or self._run_of(self.service), page

    def _fails(self, why: str) -> None:
        self.failures += 1
        if not self._failing:
            _LOG.warning("%s; retrying every %g s", why, _PERIOD_SECONDS)
        self._failing = True


class ServiceSource:
    """Reads the services that the settings name. None of them can delay the beat by more than PATIENCE_SECONDS.

    `run_of` is asked for the run of a service whose run is not declared. A service that cannot be read has no row.
    """

    name = "service"
    period_seconds = _PERIOD_SECONDS

    def __init__(
        self,
        services: Iterable[Service],
        fetch: Callable[[Service], str],
        run_of: Callable[[Service], str],
        monotonic: Callable[[], float] = time.monotonic,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        self.followed: Sequence[Followed] = [Followed(service, fetch, run_of) for service in services]
        self._monotonic = monotonic
        self._patience = patience_seconds

    def read(self) -> Reading:
        """Return a row for every service that answered since the last reading."""
        now = self._monotonic()
        oldest = now - _PERIODS_OF_AMOUNTS * self.period_seconds
        late = {each.service: each.row(0, now, oldest) for each in self.followed}
        for each in self.followed:
            if late[each.service] is None:
                each.begin()
        deadline = now + self._patience
        rows = [late[each.service] or each.row(deadline - self._monotonic(), now, oldest) for each in self.followed]
        for each in self.followed:
            each.begin()
        return {"service_samples": [said for said in rows if said is not None]}

    def close(self) -> None:
        """End the threads."""
        for each in self.followed:
            each.close()
