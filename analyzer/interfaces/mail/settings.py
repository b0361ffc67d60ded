"""The table [mail] of the settings: who sends, through which server, to whom. No password stands in it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from analyzer.errors import ConfigError
from analyzer.settings.settings import SITE_ADDRESS
from analyzer.settings.toml_model import SettingsTable, about, secret_text
from collector.config import is_loopback

_TABLE = "mail"
_SECURITIES = ("starttls", "tls", "none")
_MOST_RECIPIENTS = 500  # one mail each, one after another
MOST_SECONDS = 120  # six commands of a mail then end before its claim does (collector.registry.mails.CLAIM_US)
# RFC 5321 without quoted local parts, comments and routes: nothing that could end a header or add a recipient.
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class MailSettings(SettingsTable):
    """Every key with its default and its help; docs/settings.md is tested against it."""

    table = _TABLE
    moved = SITE_ADDRESS

    sender: str = field(default="", metadata=about("the sender's address; without it, no e-mail is sent"))
    host: str = field(default="", metadata=about("the SMTP server"))
    port: int = field(default=587, metadata=about("its port: 587 for starttls, 465 for tls"))
    security: str = field(
        default="starttls",
        metadata=about("starttls or tls, with a certificate that is verified; none for a server on this machine"),
    )
    ca: Path | None = field(
        default=None, metadata=about("file with the CA certificates to trust, instead of the system's")
    )
    user: str = field(default="", metadata=about("user name on the server; empty: no login"))
    password_file: Path | None = field(
        default=None, metadata=about("file with the password, which must not be in the settings")
    )
    timeout_seconds: int = field(default=30, metadata=about("timeout of each command to the server"))
    recipients: tuple[str, ...] = field(
        default=(), metadata=about("addresses that receive the week of the whole fleet")
    )
    teams: Mapping[str, str] = field(
        default_factory=dict,
        metadata=about(
            'addresses that receive the week of one team, by team, such as { team-nlp = "nlp@example.com" }; a '
            "team sees only its own figures"
        ),
    )
    stop_address: str = field(
        default="", metadata=about("address for requests to unsubscribe; empty: the sender's address")
    )

    def __post_init__(self) -> None:
        for name in ("sender", "stop_address"):
            if getattr(self, name):
                _address(name, getattr(self, name))
        for address in self.recipients:
            _address("recipients", address)
        for team, address in self.teams.items():
            _address(f"teams.{team}", address)
        if len(self.recipients) + len(self.teams) > _MOST_RECIPIENTS:
            raise ConfigError(f"[{_TABLE}] has more than {_MOST_RECIPIENTS} recipients; use a mailing list instead")
        if self.security not in _SECURITIES:
            raise ConfigError(f"[{_TABLE}] security is {self.security!r}; it must be one of {', '.join(_SECURITIES)}")
        if not 0 < self.port <= 65535 or not 0 < self.timeout_seconds <= MOST_SECONDS:
            raise ConfigError(f"[{_TABLE}] port must be 1 to 65535, and timeout_seconds 1 to {MOST_SECONDS}")
        if bool(self.user) != (self.password_file is not None):
            raise ConfigError(f"[{_TABLE}] user and password_file go together; one of them is missing")
        if self.security == "none" and (self.user or not is_loopback(self.host or "localhost")):
            raise ConfigError(
                f"[{_TABLE}] security none is only for a server on this machine without a password; use starttls"
            )

    @property
    def is_empty(self) -> bool:
        """Whether nobody has begun to set it up."""
        return not (self.sender or self.host or self.recipients or self.teams)

    @property
    def stops_at(self) -> str:
        """The address to which people write to stop it."""
        return self.stop_address or self.sender

    def ready(self, site_url: str) -> "MailSettings":
        """Return them where they suffice to send mails whose links lead to this site.

        Raises:
            ConfigError: something is missing, or no mailer would follow the links; the sentence names all of it.
        """
        missing = [name for name in ("sender", "host") if not getattr(self, name)]
        if not self.recipients and not self.teams:
            missing.append("recipients or teams")
        if missing:
            raise ConfigError(f"to send mails, [{_TABLE}] of the settings needs {', '.join(missing)}; see docs/mail.md")
        if not _is_followed(site_url):
            raise ConfigError(
                "to send mails, [analyzer] site_url must be an address like https://gpuledger.example, "
                f"not {site_url!r}: the unsubscribe link leads there"
            )
        return self

    def password(self) -> str | None:
        """Return the password, read from its file each time; None where the server asks for none.

        Raises:
            ConfigError: the file cannot be read or is empty; what it holds is never told.
        """
        if self.password_file is None:
            return None
        text = secret_text(_TABLE, "password_file", self.password_file).rstrip("\r\n")
        if not text:
            raise ConfigError(f"[{_TABLE}] password_file {self.password_file} is empty")
        return text


def _address(name: str, text: str) -> None:
    if not _ADDRESS.fullmatch(text) or ".." in text:
        raise ConfigError(
            f"[{_TABLE}] {name} has {text!r}, which is not a valid address such as gpu-owners@example.com"
        )


def _is_followed(url: str) -> bool:
    """Whether mailers follow links to it: RFC 8058 asks for https."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
