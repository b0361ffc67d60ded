"""The services that the settings name: `URL`, `run=URL`, and `;slo=0.5` behind either."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from agent.attribution.declared import named_run_id
from agent.errors import ConfigError

_PATH = "/metrics"
_PORTS = {"http": 80, "https": 443}
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
        raise ConfigError(f"agent.services names {len(services)} addresses; one agent reads {_SERVICES_MAX} at most")
    return services


def _service(entry: str, node: str) -> Service:
    head, *options = entry.split(";")
    name, equals, address = head.partition("=")
    if not equals or head.startswith(("http:", "https:")):
        name, address = "", head
    parts = _split(address, entry)
    return Service(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or _PORTS[parts.scheme],
        path=(parts.path if parts.path not in ("", "/") else _PATH) + (f"?{parts.query}" if parts.query else ""),
        run_id=named_run_id(name, node),
        slo_seconds=_slo(options, entry),
    )


def _split(address: str, entry: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        known = parts.port != 0 and parts.scheme in _PORTS
    except ValueError as error:
        raise ConfigError(_not_one(entry)) from error
    if not known or not parts.hostname or parts.username is not None or not address.isascii() or " " in address:
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
    return f"agent.services has {entry!r}: not like http://127.0.0.1:8000, myrun=http://127.0.0.1:8000 or …;slo=0.5"
