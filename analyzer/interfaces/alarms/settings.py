"""The table [alarms] of the settings: where findings are told, and from how much on."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from analyzer.errors import ConfigError
from analyzer.settings.environment import whole_number
from analyzer.settings.own_table import SITE_ADDRESS, OwnTable
from analyzer.settings.toml_entry import TomlEntry
from analyzer.settings.web_address import proxy_address, web_address

TABLE = "alarms"
_ENVIRONMENT = "GPULEDGER_ALARMS_"
_PATHS = ("webhook_key_file", "ca")
_NUMBERS = ("least", "least_gpu_hours", "a_day")
_KEY_LEAST = 16  # characters: as of a token


def _about(help: str) -> dict[str, Any]:  # noqa: A002 - what the reader shows
    return {"help": help}


@dataclass(frozen=True, slots=True)
class AlarmSettings:
    """Every key with its default and its help; the README is tested against it."""

    alertmanager: str = field(
        default="", metadata=_about("address of Alertmanager, http://127.0.0.1:9093; empty: it is told nothing")
    )
    webhook: str = field(default="", metadata=_about("address that gets each alarm once as JSON; empty: none"))
    webhook_key_file: Path | None = field(
        default=None, metadata=_about("file of the secret that signs what the webhook gets; needed with a webhook")
    )
    webhook_proxy: str = field(
        default="",
        metadata=_about("proxy to a webhook of https, http://proxy:3128; empty: none, whatever the environment says"),
    )
    ca: Path | None = field(
        default=None, metadata=_about("file of the certificates to trust, if they are not the system's")
    )
    least: int = field(
        default=100, metadata=_about("whole units of the currency at stake in seven days from which a finding is told")
    )
    least_gpu_hours: int = field(default=48, metadata=_about("the same where no price is known, in GPU-hours"))
    a_day: int = field(
        default=3,
        metadata=_about("alarms a team and day at most; lost GPUs, Xids, hangs and silent agents do not count"),
    )

    def __post_init__(self) -> None:
        for name in ("alertmanager", "webhook"):
            if text := getattr(self, name):
                address = web_address(f"[{TABLE}] {name}", text, is_base=name == "alertmanager")
                object.__setattr__(self, name, address)
        if self.webhook_proxy:
            proxy = proxy_address(f"[{TABLE}] webhook_proxy", self.webhook_proxy, self.webhook)
            object.__setattr__(self, "webhook_proxy", proxy)
        if bool(self.webhook) != (self.webhook_key_file is not None):
            raise ConfigError(f"[{TABLE}] webhook and webhook_key_file go together; one of them is missing")

    @property
    def told(self) -> bool:
        """Whether anybody is told."""
        return bool(self.alertmanager or self.webhook)

    def key(self) -> bytes:
        """Return the webhook's secret, read from its file each time.

        Raises:
            ConfigError: the file cannot be read, or is too short; what it holds is never told.
        """
        if self.webhook_key_file is None:
            raise AssertionError("BUG: no webhook has this secret")
        try:
            key = self.webhook_key_file.read_bytes().strip()
        except OSError as error:
            raise ConfigError(
                f"cannot read [{TABLE}] webhook_key_file {self.webhook_key_file}: {error.strerror}"
            ) from error
        if len(key) < _KEY_LEAST:
            raise ConfigError(f"[{TABLE}] webhook_key_file {self.webhook_key_file} has under {_KEY_LEAST} characters")
        return key

    @classmethod
    def read(
        cls, path: Path | None, known: Collection[str], environ: Mapping[str, str] | None = None
    ) -> "AlarmSettings":
        """Return the settings of a file with those tables, or the defaults without one; variables over both.

        Raises:
            ConfigError: a key is unknown, a value is wrong, or the file cannot be read.
        """
        own = OwnTable(TABLE, _ENVIRONMENT, [key.name for key in fields(cls)], _of_file, _of_text, SITE_ADDRESS)
        return cls(**own.read(path, known, environ))


def _of_file(table: TomlEntry, name: str, directory: Path) -> Any:  # noqa: ANN401 - the type of the key
    if name in _NUMBERS:
        return table.count(name)
    return directory / table.text(name) if name in _PATHS else table.text(name)


def _of_text(name: str, text: str) -> Any:  # noqa: ANN401 - the type of the key
    if name in _NUMBERS:
        return whole_number(_ENVIRONMENT + name.upper(), text)
    return Path(text) if name in _PATHS else text
