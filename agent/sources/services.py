"""What serving engines say themselves: their /metrics, read into `service_samples`."""

import logging
import os
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult

from agent.attribution.evidence import Process, named_run_id, user_name
from agent.attribution.run import V2, Attribution, controller_paths, unified_root
from agent.connection import PORTS, BrokenAnswerError, Connection, Response, TooSlowError, address
from agent.errors import ConfigError, SourceError, UnreadError
from agent.source import Reading, Row, Value
from agent.sources.process_table import lineage, process_of
from agent.sources.service_page import (
    BETWEEN_TOKENS,
    FIRST_RESPONSE,
    FOREIGN,
    Continuity,
    Page,
    SeriesKey,
    buckets,
    quantile,
    read_page,
    totals,
    wanted_lines,
)
from agent.sources.sockets import CgroupRuns, Listener, behind, listeners
from agent.watchdog_thread import WatchdogThread
from agent.wire.bounded import read_bounded
from agent.wire.serving import REQUESTS

# How a reading of a service went: `read`, not yet, or an UnreadError's state.
READ, ASKED = "read", "asked"

# The services that the settings name: `URL`, `run=URL`, and behind either options such as `;slo=0.5`.
_PATH = "/metrics"
_SERVICES_MAX = 32  # each has a thread
_SLO_SECONDS_MAX = 3600.0

# What of a page counts, by what its server does of the work: a request that several servers touch counts once.
ROLES: Mapping[str, frozenset[str]] = {
    "whole": frozenset({*REQUESTS, "tokens_in", "tokens_cached", "tokens_out", FIRST_RESPONSE, BETWEEN_TOKENS}),
    "prefill": frozenset({"tokens_in", "tokens_cached"}),
    "decode": frozenset({*REQUESTS, "tokens_out", BETWEEN_TOKENS}),
    "worker": frozenset(),  # behind a router that is read itself
}


@dataclass(frozen=True, slots=True)
class Service:
    """One address that is read. `run_id` is None where the settings do not say whose it is."""

    scheme: str
    host: str
    port: int
    path: str
    run_id: str | None = None
    slo_seconds: float | None = None  # promised for the time to the first token, at the 99th percentile
    role: str | None = None  # one of ROLES, None: as its engine says, else the whole
    model: str | None = None  # whose requests count where there are several; * adds them up
    token_file: Path | None = None

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
    addresses = [(each.url.partition("?")[0], each.model) for each in services]
    if twice := [url for url, model in addresses if addresses.count((url, model)) > 1]:
        raise ConfigError(
            f"agent.services has {twice[0]} twice; an address counts once, or once for each …;model=NAME behind it"
        )
    return services


def _service(entry: str, node: str) -> Service:
    head, *options = entry.split(";")
    name, equals, url = head.partition("=")
    if not equals or head.startswith(("http:", "https:")):
        name, url = "", head
    parts = _split(url, entry)
    service = Service(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or PORTS[parts.scheme],
        path=(parts.path if parts.path not in ("", "/") else _PATH) + (f"?{parts.query}" if parts.query else ""),
        run_id=named_run_id(name, node),
    )
    return replace(service, **dict(_option(option, entry) for option in options))


def _split(url: str, entry: str) -> SplitResult:
    try:
        parts = address(url)
    except ValueError as error:
        raise ConfigError(_not_one(entry)) from error
    if parts.username is not None or not url.isascii() or " " in url:
        raise ConfigError(_not_one(entry))
    return parts


def _option(option: str, entry: str) -> tuple[str, Any]:
    """Return the field of a service that an option sets, and its value."""
    key, _, given = (part.strip() for part in option.partition("="))
    if key == "slo":
        with suppress(ValueError):
            if 0 < (seconds := float(given)) <= _SLO_SECONDS_MAX:
                return "slo_seconds", seconds
    elif (key == "role" and given in ROLES) or (key == "model" and given):
        return key, given
    elif key == "token_file" and given.startswith("/"):
        return key, Path(given)
    raise ConfigError(_not_one(entry))


def _not_one(entry: str) -> str:
    return (
        f"agent.services has {entry!r}: expected the form http://127.0.0.1:8000, myrun=http://127.0.0.1:8000 "
        f"or …;slo=0.5;role={'|'.join(ROLES)};model=NAME;token_file=/path"
    )


PAGE_BYTES_MAX = 64 * 2**20  # streamed; what is kept of it has a bound of its own
_WHOLE_SECONDS = 5.0  # for all of it, however slowly it trickles
_TOKEN_CHARACTERS_MAX = 16_384
_LOCATION_CHARACTERS = 200


def fetch(service: Service, ca_file: Path | None = None, seconds: Callable[[], float] = time.monotonic) -> str:
    """Return the lines of the page that are wanted. Redirects and proxies are not followed: the agent talks to whom it
    was told, and nobody else.

    Raises:
        UnreadError: it cannot be had, is too large or too slow, or is of nothing that serves.
    """
    try:
        connection = Connection(service.url, _WHOLE_SECONDS, authority=ca_file)
        try:
            until = seconds() + _WHOLE_SECONDS
            response = connection.response("GET", service.path, headers=_headers(service))
            _refuse(service, response)
            lines = wanted_lines(_unpacked(response, _pieces(response, until, seconds)))
            # llama.cpp says since when it runs here; its page does not
            began = response.headers.get("Process-Start-Time-Unix", "").strip()
            return f"{lines}\nprocess_start_time_seconds {began}" if began.isdecimal() else lines
        finally:
            connection.close()
    except UnreadError as error:
        raise UnreadError(error.state, f"{service.url} {error}") from error
    except TooSlowError as error:
        raise UnreadError("too_slow", f"{service.url} cannot be read ({error})") from error
    except (OSError, zlib.error) as error:
        state = "too_slow" if isinstance(error, TimeoutError) else "unreachable"
        raise UnreadError(state, f"{service.url} cannot be read ({error or type(error).__name__})") from error


def _headers(service: Service) -> dict[str, str]:
    """Return what is asked with; a file of one line holds a token, or a header such as `X-Api-Key: …` as a whole."""
    headers = {"Accept": "text/plain", "Accept-Encoding": "identity"}
    if service.token_file is None:
        return headers
    try:
        line = read_bounded(service.token_file, _TOKEN_CHARACTERS_MAX).decode().strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not a short text"
        raise UnreadError("key_wanted", f"wants a key, and {service.token_file} cannot be read ({why})") from error
    if not line or not line.isprintable() or not line.isascii() or len(line) > _TOKEN_CHARACTERS_MAX:
        raise UnreadError("key_wanted", f"wants a key, and {service.token_file} does not have one in one line")
    name, colon, value = line.partition(": ")
    return headers | ({name: value} if colon and " " not in name else {"Authorization": f"Bearer {line}"})


def _refuse(service: Service, response: Response) -> None:
    """Raise where the status says that this is no page, and what to do about it."""
    status = response.status
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        what = f"refuses the key in {service.token_file}" if service.token_file else "wants a key"
        hint = "" if service.token_file else "; put it into a file and name that: …;token_file=/path"
        raise UnreadError("key_wanted", f"{what} (returned {status}){hint}")
    if 300 <= status < 400:
        where = "".join(filter(str.isprintable, response.headers.get("Location", "")))[:_LOCATION_CHARACTERS]
        raise UnreadError(
            "redirect", f"redirects to {where or 'nowhere'} (returned {status}): name that address in agent.services"
        )
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise UnreadError("server_error", f"returned {status}: the server itself fails; see its log")
    if status != HTTPStatus.OK:
        raise UnreadError("no_page", f"returned {status}; agent.services must have the address of its /metrics")


def _pieces(response: Response, until: float, seconds: Callable[[], float]) -> Iterator[bytes]:
    size = 0
    while piece := response.piece():
        size += len(piece)
        if size > PAGE_BYTES_MAX:
            raise UnreadError("too_large", f"is larger than {PAGE_BYTES_MAX >> 20} MB")
        if seconds() > until:
            raise TooSlowError(f"it took longer than {_WHOLE_SECONDS:g} s")
        yield piece


def _unpacked(response: Response, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what gzip or deflate packed, though nobody asked for it; bounded as the page itself is."""
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding in ("identity", ""):
        yield from pieces
        return
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise UnreadError("foreign", f"is packed with {coding[:20]!r}, which cannot be unpacked here")
    unpacker, size = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32), 0
    for piece in pieces:
        rest = piece
        while rest:
            unpacked = unpacker.decompress(rest, _UNPACKED_BYTES)
            rest, size = unpacker.unconsumed_tail, size + len(unpacked)
            if size > PAGE_BYTES_MAX:
                raise UnreadError("too_large", f"is larger than {PAGE_BYTES_MAX >> 20} MB")
            yield unpacked
    if not unpacker.eof:
        raise BrokenAnswerError("what was packed was cut off")


_UNPACKED_BYTES = 1 << 18


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


_QUANTILES = (("p50", 0.5), ("p99", 0.99))
_NEEDED = {
    "model": "several models, of which an ensemble's are counted with it: name the one that counts, …;model=NAME, or "
    "model=* to add them up",
    "role": "a half of a server that prefills and decodes apart: say which, …;role=prefill or role=decode",
}


def row(run_id: str, service: Service, page: Page, moved: Mapping[SeriesKey, float] | None, state: str = READ) -> Row:
    """Return what a service did since the page before; without what `moved`, amounts and percentiles are unknown."""
    said: dict[str, Value] = {"run_id": run_id, "engine": page.engine, "model": page.model, "state": state}
    said |= {"slo_seconds": service.slo_seconds, **page.now}
    counts = ROLES[service.role or page.role or "whole"]
    if moved is None or (page.needs == "role" and not service.role) or (page.needs == "model" and service.model):
        return said
    counts = counts.difference(REQUESTS) if page.needs == "model" else counts
    said |= {column: round(amount) for column, amount in totals(moved).items() if column in counts}
    for column, stem in ((FIRST_RESPONSE, "first_token_seconds"), (BETWEEN_TOKENS, "inter_token_seconds")):
        if column in counts and (counted := buckets(moved, column)):
            for name, share in _QUANTILES:
                said[f"{stem}_{name}"] = quantile(counted, share).estimate
            p99 = quantile(counted, _QUANTILES[-1][1])
            said |= {f"{stem}_p99_low": p99.least, f"{stem}_p99_high": p99.most}
    return said


_LOG = logging.getLogger(__name__)
_PERIOD_SECONDS = 10.0
_PATIENCE_SECONDS = 0.05  # with all services; a slower one is told with the next reading
_PERIODS_OF_AMOUNTS = 2.5  # older than so many, a page is no beginning of what is told as one interval


class Followed:
    """One service: the page that was told last, and the question that is under way.

    `run_of` says whose run it is; `failures` counts the pages that could not be had, `state` is how the last reading
    went, and `trouble` what to do about it.
    """

    def __init__(self, service: Service, fetch: Callable[[Service], str], run_of: Callable[[Service], str]) -> None:
        self.service = service
        self.failures = 0
        self.state, self.trouble = ASKED, ""
        self._run_of = run_of
        self._thread: WatchdogThread[tuple[str, Page | UnreadError]] = WatchdogThread(
            f"service-{service.port}", partial(self._ask, fetch)
        )
        self._is_asked = False
        self._continuity = Continuity()
        self._engine: str | None = None
        self._read_at = -inf

    def begin(self) -> None:
        """Ask for the page, unless that is still under way."""
        if not self._is_asked:
            self._thread.begin()
            self._is_asked = True

    def row(self, timeout_seconds: float, now: float, oldest: float) -> Row | None:
        """Return what came within so long, or None; amounts only since a page that is no older than `oldest`.

        Of a page that could not be read the row says why, and nothing else: what is named is a service all the same.
        """
        if not self._is_asked or not self._thread.ready(timeout_seconds):
            return None
        self._is_asked = False
        run_id, page = self._thread.answer(0)
        if isinstance(page, UnreadError):
            self.failures += 1
            self._turn(page.state, str(page))
            slo = self.service.slo_seconds
            return {"run_id": run_id, "engine": self._engine, "state": page.state, "slo_seconds": slo}
        moved = self._continuity.moved(page, is_recent=self._read_at >= oldest)
        self._read_at, self._engine = now, page.engine
        needed = None if page.needs == "role" and self.service.role else page.needs
        if self._continuity.is_of_several:
            self._turn("several_processes", f"{self.service.url} is answered by several processes in turn: name each")
        elif needed is not None:
            what = f"no model {self.service.model!r}" if needed == "model" and self.service.model else _NEEDED[needed]
            self._turn(f"{needed}_wanted", f"{self.service.url} has {what}")
        else:
            self._turn(READ, "")
        return row(run_id, self.service, page, moved, self.state)

    def close(self) -> None:
        """End the thread."""
        self._thread.close()

    def _ask(self, fetch: Callable[[Service], str]) -> tuple[str, Page | UnreadError]:
        run_id = self.service.run_id or self._run_of(self.service)
        try:
            page = read_page(fetch(self.service), self.service.model)
        except UnreadError as error:
            return run_id, error
        return run_id, page or UnreadError("foreign", f"{self.service.url} {FOREIGN}")

    def _turn(self, state: str, trouble: str) -> None:
        """Note how a reading went; say a change once."""
        if state != self.state and trouble:
            _LOG.warning("%s; retrying every %g s", trouble, _PERIOD_SECONDS)
        elif state != self.state and self.state != ASKED:
            _LOG.info("%s can be read again", self.service.url)
        self.state, self.trouble = state, trouble


class ServiceSource:
    """Reads the services that the settings name. None of them can delay the beat by more than PATIENCE_SECONDS.

    `run_of` is asked for the run of a service whose run is not declared.
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

    def coverage(self) -> list[str]:
        """Return which services are not read, or not wholly, and what to do about it."""
        return [each.trouble for each in self.followed if each.trouble]

    def close(self) -> None:
        """End the threads."""
        for each in self.followed:
            each.close()
