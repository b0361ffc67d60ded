"""The analyzer's settings: the [analyzer] table of the one TOML file, environment over it, into one frozen object."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from analyzer.errors import ConfigError
from analyzer.period import WEEKDAYS, Calendar
from analyzer.settings.environment import of_environment, whole_number
from analyzer.settings.placement import TABLE, Advising, Guards, advising_of, guards_of
from analyzer.settings.toml_entry import TomlEntry, read_toml
from analyzer.settings.web_address import web_address

TABLES = ("agent", "collector", "analyzer", TABLE, "mail", "alarms", "model")
_ENVIRONMENT = "GPULEDGER_ANALYZER_"
SETTINGS_NAME = "gpuledger.toml"  # the settings that lie beside a store are that store's
PATHS = ("prices", "teams", "models", "tariffs", "services", "budgets", "profile_key", "gates")  # beside the settings
OWN_TABLE = ("guards", "advising")  # what [placement] says


def _about(help: str) -> dict[str, Any]:  # noqa: A002 - what the reader shows
    return {"help": help}


@dataclass(frozen=True, slots=True)
class Settings:
    """Every key with its default and its help; the README is tested against it."""

    cluster: str = field(default="fleet", metadata=_about("what the fleet is called on reports"))
    site_url: str = field(
        default="",
        metadata=_about(
            "where people reach gpuledger serve, https://gpuledger.example: links of mails, alarms and alerts lead "
            "there; with https, the cookie is for https alone"
        ),
    )
    timezone: str = field(default="UTC", metadata=_about("whose days and weeks reports follow, such as Europe/Berlin"))
    first_weekday: str = field(default="monday", metadata=_about("the day on which a week begins"))
    currency: str = field(default="USD", metadata=_about("the ledger's one currency"))
    prices: Path | None = field(default=None, metadata=_about("the price file; without it every cost is unknown"))
    teams: Path | None = field(default=None, metadata=_about("the teams file; without it every run is unmapped"))
    models: Path | None = field(
        default=None, metadata=_about("the models file; without it a run's label or server names its model")
    )
    tariffs: Path | None = field(default=None, metadata=_about("the tariffs file; without it no traffic is priced"))
    services: Path | None = field(
        default=None, metadata=_about("the services file; without it every reserve of a service is declared")
    )
    budgets: Path | None = field(default=None, metadata=_about("the budgets file; without it nothing is over budget"))
    profile_key: Path | None = field(
        default=None,
        metadata=_about("the key that capacity profiles are signed with; made beside the store where it is not named"),
    )
    gates: Path | None = field(default=None, metadata=_about("the gates file; without it our own, which names no key"))
    memory_limit: str = field(default="500MB", metadata=_about("how much memory DuckDB may take while it analyses"))
    threads: int = field(default=2, metadata=_about("how many threads DuckDB may use while it analyses"))
    guards: Guards = field(default=Guards(), metadata=_about("the table [placement]"))
    advising: Advising = field(default=Advising(), metadata=_about("of the table [placement] what is no guard"))

    def __post_init__(self) -> None:
        if self.site_url:
            object.__setattr__(self, "site_url", web_address("site_url", self.site_url))
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ConfigError(f"timezone {self.timezone!r} is not known; write one such as Europe/Berlin") from error
        if self.first_weekday not in WEEKDAYS:
            raise ConfigError(f"first_weekday {self.first_weekday!r} is no day; write one such as monday")
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
        content = TomlEntry("the settings", {}, TABLES) if path is None else read_toml(path, TABLES)
        around = os.environ if environ is None else environ
        settings = cls() if path is None else _from_file(cls(), content, path)
        guards, advising = guards_of(content, around), advising_of(content, around)
        return replace(_from_environment(settings, around), guards=guards, advising=advising)

    @classmethod
    def beside(cls, store: Path, environ: Mapping[str, str] | None = None) -> "Settings":
        """Return the settings that lie beside a store, or the defaults where none do."""
        return cls.read(settings_file(store, None), environ)


def settings_file(store: Path, config: Path | None) -> Path | None:
    """Return the settings that somebody named, else those that lie beside a store; None where there are none."""
    beside = store.parent / SETTINGS_NAME
    return config or (beside if beside.exists() else None)


def _own_keys() -> list[str]:
    """Return the keys of [analyzer]; what recommendations are made by has a table of its own."""
    return [key.name for key in fields(Settings) if key.name not in OWN_TABLE]


def _from_file(settings: Settings, content: TomlEntry, path: Path) -> Settings:
    known = _own_keys()
    table = content.table("analyzer", known)
    given: dict[str, Any] = {name: _value(table, name, path.parent) for name in known if table.has(name)}
    return replace(settings, **given)


def _value(table: TomlEntry, name: str, directory: Path) -> str | int | Path:
    if name == "threads":
        return table.count(name)
    text = table.text(name)
    return directory / text if name in PATHS else text


def _from_environment(settings: Settings, environ: Mapping[str, str]) -> Settings:
    told = of_environment(environ, _ENVIRONMENT, _own_keys())
    given: dict[str, Any] = {name: _from_text(name, text) for name, text in told.items()}
    return replace(settings, **given)


def _from_text(name: str, text: str) -> str | int | Path:
    if name != "threads":
        return Path(text) if name in PATHS else text
    return whole_number(f"{_ENVIRONMENT}THREADS", text)
