"""The requests for more GPUs that a site keeps: in the registry beside a store here, or with a running server."""

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from analyzer.capacity.gate.decided import Decided, decided_of
from analyzer.capacity.gate.request_store import Event, KeptRequest, Teller, kept_request, kept_requests, waive
from analyzer.interfaces.cli.by_command import where, who
from analyzer.server_client import ask_server_json, typed, zone_of
from analyzer.settings.settings import settings_file
from collector.registry import Registry

PATH = "/v1/capacity-requests"
_LOCAL = "local"  # the role of who works on the site's own machine: who can do so can also write its files
_FOR_EVER = 2**62


class Requests(Protocol):
    """Whoever keeps them.

    Raises (of each method):
        ConfigError: there is no such gate, or it cannot be waived.
        LedgerError: there is no such request, or the server does not answer.
        RegistryError: the registry does not answer.
    """

    def all(self) -> tuple[list[KeptRequest], str]:
        """Return all, the newest first, and the time zone in which the site reads times."""

    def one(self, request_id: str) -> tuple[KeptRequest, str]:
        """Return one, by its id or enough of its beginning, and the time zone."""

    def waive(self, request_id: str, gate: str, reason: str) -> Decided:
        """Waive one gate of one; return what is decided then."""


@dataclass(frozen=True, slots=True)
class StoreRequests:
    """A store on this machine; a server may run on it."""

    options: argparse.Namespace

    def all(self) -> tuple[list[KeptRequest], str]:
        """Return all."""
        zone = where(self.options)[1].timezone
        with registry_of_site(self.options) as registry:
            return kept_requests(registry, 0, _FOR_EVER), zone

    def one(self, request_id: str) -> tuple[KeptRequest, str]:
        """Return one."""
        zone = where(self.options)[1].timezone
        with registry_of_site(self.options) as registry:
            return kept_request(registry, request_id), zone

    def waive(self, request_id: str, gate: str, reason: str) -> Decided:
        """Waive one gate."""
        with registry_of_site(self.options) as registry:
            return waive(registry, request_id, gate, reason, teller()).decided


@dataclass(frozen=True, slots=True)
class ServerRequests:
    """A running server."""

    address: str

    def all(self) -> tuple[list[KeptRequest], str]:
        """Return all."""
        pages = list(self._pages())
        return [_kept_of(item) for page in pages for item in page["items"]], zone_of(pages[0])

    def one(self, request_id: str) -> tuple[KeptRequest, str]:
        """Return one."""
        document = ask_server_json(self.address, f"{PATH}/{request_id}")
        return _kept_of(document["request"]), zone_of(document)

    def waive(self, request_id: str, gate: str, reason: str) -> Decided:
        """Waive one gate."""
        body: dict[str, object] = {"gate": gate, "reason": reason}
        document = ask_server_json(self.address, f"{PATH}/{request_id}/waivers", body)
        return decided_of(document["request"]["decided"])

    def _pages(self) -> Iterator[dict[str, Any]]:
        cursor: str | None = ""
        while cursor is not None:
            page = ask_server_json(self.address, f"{PATH}?cursor={cursor}" if cursor else PATH)
            yield page
            cursor = page["next_cursor"]


def requests_of(options: argparse.Namespace) -> Requests:
    """Return who is asked: the server of --server, or else the store here."""
    return ServerRequests(options.server) if options.server else StoreRequests(options)


def registry_of_site(options: argparse.Namespace) -> Registry:
    """Return the registry beside the store that the arguments or the settings name."""
    from collector.access.open_access import registry_of
    from collector.config import load
    from collector.store.there import check_there

    file = settings_file(options.store, options.config) if options.store else options.config
    config = load(file, os.environ)
    store: Path = options.store or config.store
    check_there(store, config.lake)
    return registry_of(config, store)


def teller() -> Teller:
    """Return who says something on this machine, now."""
    return Teller(who(), _LOCAL, time.time_ns() // 1000)


def _kept_of(item: dict[str, Any]) -> KeptRequest:
    events = typed(tuple[Event, ...], item["history"])
    return KeptRequest(decided_of(item["decided"]), item["asked_at"], item["asked_by"], events)
