"""The analyzer's settings: the tables [analyzer] and [placement] of the one TOML file, the environment over them."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from analyzer.errors import ConfigError
from analyzer.period import WEEKDAYS, Calendar
from analyzer.settings.toml_model import about, keys_of, settings_content, settings_table
from collector.config import CollectorConfig, settings_file, settings_of_store

_PLAIN = re.compile(r"[A-Za-z0-9._~/:@%?&=+\[\]-]+")


def web_address(setting: str, text: str, *, is_base: bool = True) -> str:
    """Return an http address as it is used; of a base, to which paths are added, without the slash at its end.

    Raises:
        ConfigError: it is none, or a base has a query; the sentence begins with the setting's name.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{setting} is {text!r}: {error}") from error
    is_whole = parts.scheme in ("http", "https") and host and port != 0 and _PLAIN.fullmatch(text)
    if not is_whole or (is_base and parts.query):
        raise ConfigError(f"{setting} is {text!r}: not an address such as https://gpuledger.example")
    return text.rstrip("/") if is_base else text


def proxy_address(setting: str, text: str, url: str) -> str:
    """Return the address of a proxy through which an address of https is reached; nothing of what we say is read there.

    Raises:
        ConfigError: it is none, bears a password, or the address behind it is not of https.
    """
    proxy = web_address(setting, text)
    if not proxy.startswith("http://") or "@" in proxy or urlsplit(proxy).path:
        raise ConfigError(
            f"{setting} is {text!r}: not an address such as http://proxy.example:3128, without a password"
        )
    if not url.startswith("https://"):
        raise ConfigError(f"{setting} is for https addresses only: the proxy could read anything else")
    return proxy


TABLE = "placement"
HUNDRED = 100


@dataclass(frozen=True, slots=True)
class Guards:
    """The numbers of the guards, the table [placement] of the settings.

    12 hours and 10 percent are the Vertical Pod Autoscaler's (in-recommendation-bounds-eviction-lifetime-threshold,
    pod-update-threshold); that there is a limit on how much is moved at once is the Kubernetes descheduler's
    (maxNoOfPodsToEvictTotal), its size is ours, as is all else.
    """

    least_gain: int = field(default=10, metadata=about("minimum gain of a restart at P20, in whole currency units"))
    least_gain_percent: int = field(default=10, metadata=about("and so much of what the restart itself costs"))
    hours_between_moves: int = field(default=12, metadata=about("how long a run is left alone once it was moved"))
    moved_percent: int = field(
        default=5, metadata=about("how much of the fleet's GPUs may be restarted at once; one run may be more")
    )
    rejected_hours: int = field(default=24, metadata=about("how long a rejected recommendation is not made again"))
    horizon_days: int = field(default=28, metadata=about("maximum time for which a saving counts"))
    valid_days: int = field(default=14, metadata=about("how long after its period a recommendation holds"))

    def __post_init__(self) -> None:
        for name in ("least_gain_percent", "moved_percent"):
            if getattr(self, name) > HUNDRED:
                raise ConfigError(f"[{TABLE}] {name} must be no more than {HUNDRED} percent, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Advising:
    """How long the whole fleet is planned for, and whether realised savings correct what is assumed; both are ours."""

    plan_seconds: int = field(
        default=10, metadata=about("how long a plan of the whole fleet may be searched for at most; 0 makes none")
    )
    learn_shares: bool = field(
        default=False,
        metadata=about("whether shares that twenty realized cases of a kind show take the place of the assumed ones"),
    )


DEFAULT = Guards()
KEYS = (*keys_of(Guards), *keys_of(Advising))


TABLES = ("agent", "collector", "analyzer", TABLE, "mail", "alarms", "model", "oidc")
# A key that [mail] and [alarms] once had, with what has taken its place.
SITE_ADDRESS = {
    "base_url": "site_url of [analyzer], or GPULEDGER_ANALYZER_SITE_URL: one for mails, alarms, alerts and cookies"
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Every key with its default and its help; docs/settings.md is tested against it."""

    cluster: str = field(default="fleet", metadata=about("what the fleet is called on reports"))
    site_url: str = field(
        default="",
        metadata=about(
            "where people reach gpuledger serve, https://gpuledger.example: links of mails, alarms and alerts lead "
            "there; with https, the cookie is for https alone; pages of that address may change something, and a path "
            "is before all links"
        ),
    )
    timezone: str = field(default="UTC", metadata=about("whose days and weeks reports follow, such as Europe/Berlin"))
    first_weekday: str = field(default="monday", metadata=about("the day on which a week begins"))
    currency: str = field(default="USD", metadata=about("the ledger's one currency"))
    prices: Path | None = field(default=None, metadata=about("the price file; without it every cost is unknown"))
    teams: Path | None = field(default=None, metadata=about("the teams file; without it every run is unmapped"))
    models: Path | None = field(
        default=None, metadata=about("the models file; without it a run's label or server names its model")
    )
    tariffs: Path | None = field(default=None, metadata=about("the tariffs file; without it no traffic is priced"))
    services: Path | None = field(
        default=None, metadata=about("the services file; without it every reserve of a service is declared")
    )
    budgets: Path | None = field(default=None, metadata=about("the budgets file; without it nothing is over budget"))
    profile_key: Path | None = field(
        default=None,
        metadata=about("the key that capacity profiles are signed with; made beside the store where it is not named"),
    )
    gates: Path | None = field(
        default=None, metadata=about("the policy file; without it the built-in policy, which names no key")
    )
    quotas: Path | None = field(
        default=None,
        metadata=about("the folder of what kubectl, sshare and sacctmgr print of quotas; without it none is known"),
    )
    memory_limit: str = field(default="500MB", metadata=about("how much memory DuckDB may take while it analyses"))
    threads: int = field(default=2, metadata=about("how many threads DuckDB may use while it analyses"))
    guards: Guards = field(default=Guards(), metadata=about("the table [placement]"))
    advising: Advising = field(default=Advising(), metadata=about("the settings of [placement] that are not guards"))

    def __post_init__(self) -> None:
        if self.site_url:
            object.__setattr__(self, "site_url", web_address("site_url", self.site_url))
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ConfigError(f"timezone {self.timezone!r} is not known; write one such as Europe/Berlin") from error
        if self.first_weekday not in WEEKDAYS:
            raise ConfigError(f"first_weekday {self.first_weekday!r} is not a weekday; write one such as monday")
        if self.threads < 1:
            raise ConfigError(f"threads must be 1 or more, not {self.threads}")

    @property
    def calendar(self) -> Calendar:
        """The site's clock and week."""
        return Calendar(self.timezone, WEEKDAYS.index(self.first_weekday))

    @classmethod
    def read(cls, path: Path | None, environ: Mapping[str, str] | None = None) -> "Settings":
        """Return the settings of a file (or the defaults) with GPULEDGER_ANALYZER_… variables over them.

        Raises:
            ConfigError: a key is unknown or a value is wrong; the sentence names both.
        """
        content = settings_content(path, TABLES)
        own = settings_table(cls, "analyzer", content, path, environ)
        guards = settings_table(Guards, TABLE, content, path, environ, KEYS)
        advising = settings_table(Advising, TABLE, content, path, environ, KEYS)
        return replace(own, guards=guards, advising=advising)

    @classmethod
    def beside(cls, store: Path, environ: Mapping[str, str] | None = None) -> "Settings":
        """Return the settings that lie beside a store, or the defaults where none do."""
        return cls.read(settings_file(store, None), environ)


PATHS = tuple(each.name for each in fields(Settings) if each.type == Path | None)  # the files that it names


def site_of(store: Path | None, config: Path | None) -> tuple[CollectorConfig, Settings]:
    """Return the settings of the server of a store, which --store and --config name: the collector's, and ours.

    Raises:
        ConfigError: one of them is wrong.
    """
    collector, file = settings_of_store(store, config, os.environ)
    return collector, Settings.read(file)
