"""The table [model] of the settings: which language model reads descriptions of tasks. Without an address, none."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import TomlEntry
from analyzer.settings.toml_model import about, read_settings, secret_text, toml_key
from analyzer.settings.web_address import proxy_address
from collector.access.gate import is_loopback

_TABLE = "model"
_ENVIRONMENT = "GPULEDGER_MODEL_"
_MOST_SECONDS = 600


def _no_key(table: TomlEntry, _: str) -> NoReturn:
    raise ConfigError(f"{table.where}: a key does not stand here; put it into key_file or {_ENVIRONMENT}KEY")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Every key with its default and its help; the README is tested against it."""

    url: str = field(
        default="",
        metadata=about(
            "address of an OpenAI-compatible endpoint, as in http://127.0.0.1:8000/v1; empty: none is asked"
        ),
    )
    model: str = field(default="", metadata=about("what the endpoint calls the model"))
    key_file: Path | None = field(
        default=None, metadata=about("file of the endpoint's key; none where it asks for none")
    )
    key: str = field(
        default="",
        repr=False,
        metadata=toml_key(
            read=_no_key, help="the same key, in GPULEDGER_MODEL_KEY alone: no secret stands in a file of settings"
        ),
    )
    proxy: str = field(
        default="",
        metadata=about("proxy to an endpoint of https, http://proxy:3128; empty: none, whatever the environment says"),
    )
    ca: Path | None = field(
        default=None, metadata=about("file of the certificates to trust, if they are not the system's")
    )
    timeout_seconds: int = field(default=60, metadata=about("how long one answer may take"))

    def __post_init__(self) -> None:
        if bool(self.url) != bool(self.model):
            raise ConfigError(f"[{_TABLE}] url and model go together; one of them is missing")
        if not 0 < self.timeout_seconds <= _MOST_SECONDS:
            raise ConfigError(f"[{_TABLE}] timeout_seconds is {self.timeout_seconds}: not 1 to {_MOST_SECONDS}")
        if self.key and self.key_file is not None:
            raise ConfigError(f"the key is in {_ENVIRONMENT}KEY and in [{_TABLE}] key_file; leave one of them out")
        if self.url:
            object.__setattr__(self, "url", _url(self.url).rstrip("/"))
        if self.proxy:
            object.__setattr__(self, "proxy", proxy_address(f"[{_TABLE}] proxy", self.proxy, self.url))
        if self.url.startswith("http://") and (self.key or self.key_file) and not is_loopback(self.host):
            raise ConfigError(f"[{_TABLE}] url is {self.url}: a key goes over https, or to this machine alone")

    @property
    def host(self) -> str:
        """The host of the address."""
        return urlsplit(self.url).hostname or ""

    def ready(self) -> "ModelSettings":
        """Return them where a model is set.

        Raises:
            ConfigError: none is; the sentence says how to set one.
        """
        if not self.url:
            raise ConfigError(
                "no language model is asked anything until you name one: write [model] with url and model into "
                "gpuledger.toml (docs/assistant.md); or write the task file yourself: gpuledger plan TASKS.yaml"
            )
        return self

    def secret(self) -> str | None:
        """Return the key, of a file as it is now; None where the endpoint asks for none.

        Raises:
            ConfigError: the file cannot be read, or holds no key; what it holds is never told.
        """
        text = self.key
        if self.key_file is not None:
            text = secret_text(_TABLE, "key_file", self.key_file).strip()
        elif not text:
            return None
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise ConfigError(f"the key of [{_TABLE}] is empty, or has blanks, lines or letters that no key has")
        return text

    @classmethod
    def read(
        cls, path: Path | None, known: Collection[str], environ: Mapping[str, str] | None = None
    ) -> "ModelSettings":
        """Return the settings of a file with those tables, or the defaults without one; variables over both.

        Raises:
            ConfigError: a key is unknown, a value is wrong, or the file cannot be read.
        """
        return read_settings(cls, _TABLE, path, known, environ)


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"[{_TABLE}] url is no address: {error}") from error
    if parts.username or parts.password:
        raise ConfigError(f"[{_TABLE}] url must not bear a password, which others could read; put it into key_file")
    is_plain = text.isascii() and text.isprintable() and " " not in text and not parts.query and not parts.fragment
    if parts.scheme not in ("http", "https") or not host or port == 0 or not is_plain:
        raise ConfigError(f"[{_TABLE}] url is no address like https://models.example/v1, without a query")
    return text
