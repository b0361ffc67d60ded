"""The table [alarms] of the settings: where findings are told, and from how much on."""

from dataclasses import dataclass, field
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.settings.settings import SITE_ADDRESS, proxy_address, web_address
from analyzer.settings.toml_model import SettingsTable, about

TABLE = "alarms"
_KEY_LEAST = 16  # characters: as of a token


@dataclass(frozen=True, slots=True)
class AlarmSettings(SettingsTable):
    """Every key with its default and its help; docs/settings.md is tested against it."""

    table = TABLE
    moved = SITE_ADDRESS

    alertmanager: str = field(
        default="", metadata=about("address of Alertmanager, http://127.0.0.1:9093; empty: not notified")
    )
    webhook: str = field(default="", metadata=about("address that receives each alarm once as JSON; empty: none"))
    webhook_key_file: Path | None = field(
        default=None, metadata=about("file with the secret that signs webhook requests; required with a webhook")
    )
    webhook_proxy: str = field(
        default="",
        metadata=about("proxy for an https webhook, http://proxy:3128; empty: none, regardless of the environment"),
    )
    ca: Path | None = field(
        default=None, metadata=about("file with the CA certificates to trust, instead of the system's")
    )
    least: int = field(
        default=100,
        metadata=about("minimum estimated waste in seven days for an alarm, in whole units of the currency"),
    )
    least_gpu_hours: int = field(default=48, metadata=about("the same in GPU-hours, where no price is known"))
    a_day: int = field(
        default=3,
        metadata=about(
            "maximum number of alarms per team per day; lost GPUs, Xids, hangs and silent agents do not count"
        ),
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
            raise ConfigError(
                f"[{TABLE}] webhook_key_file {self.webhook_key_file} has fewer than {_KEY_LEAST} characters"
            )
        return key
