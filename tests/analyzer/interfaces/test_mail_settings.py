"""The table [mail] is read strictly: what is wrong is said before anything is sent, and no password stands in it."""

from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.settings.settings import TABLES, Settings

WHOLE = """
[mail]
sender = "gpuledger@example.com"
host = "smtp.example.com"
user = "mailer"
password_file = "mail-password"
recipients = ["gpu-owners@example.com"]
teams = { team-nlp = "nlp@example.com" }
"""


def read(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> MailSettings:
    """Return the settings of a file."""
    path = tmp_path / "gpuledger.toml"
    path.write_text(text)
    return MailSettings.read(path, TABLES, environ or {})


def test_a_whole_table_is_read(tmp_path: Path) -> None:
    """Files lie beside the settings that name them, and the analyzer passes the table over."""
    found = read(tmp_path, WHOLE).ready("https://gpuledger.example")
    assert found.password_file == tmp_path / "mail-password"
    assert found.teams == {"team-nlp": "nlp@example.com"}
    assert (found.port, found.security, found.stops_at) == (587, "starttls", "gpuledger@example.com")
    assert Settings.read(tmp_path / "gpuledger.toml", {}).cluster == "fleet"


def test_variables_stand_over_the_file(tmp_path: Path) -> None:
    """As for all other tables; systemd hands over where a credential is in this way."""
    environ = {
        "GPULEDGER_MAIL_PASSWORD_FILE": "/run/credentials/x/mail-password",
        "GPULEDGER_MAIL_TEAMS": "team-a=a@example.com, team-b=b@example.com",
        "GPULEDGER_MAIL_PORT": "2525",
    }
    found = read(tmp_path, WHOLE, environ)
    assert found.password_file == Path("/run/credentials/x/mail-password")
    assert found.teams == {"team-a": "a@example.com", "team-b": "b@example.com"}
    assert found.port == 2525


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ('recipient = ["a@example.com"]', "did you mean 'recipients'"),
        ('password = "hunter2"', "did you mean 'password_file'"),
        ('recipients = "a@example.com"', "list of texts"),
        ('recipients = ["a@example.com\\r\\nBcc: b@example.com"]', "not a valid address"),
        ('recipients = ["a@example.com, b@example.com"]', "not a valid address"),
        ('recipients = ["Anna <a@example.com>"]', "not a valid address"),
        ('teams = { nlp = "nobody" }', "not a valid address"),
        ('security = "ssl"', "one of starttls, tls, none"),
        ('security = "none"\nhost = "smtp.example.com"', "on this machine"),
        ('security = "none"\nhost = "127.0.0.1"\nuser = "u"\npassword_file = "p"', "on this machine"),
        ('user = "mailer"', "go together"),
        ("port = 0", "1 to 65535"),
        ("timeout_seconds = 900", "1 to 120"),
        ("host = 7", "text in quotes"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(tmp_path: Path, key: str, said: str) -> None:
    """One sentence names the key and what would be right."""
    with pytest.raises(ConfigError, match=said):
        read(tmp_path, f"[mail]\n{key}\n")


def test_what_is_missing_to_send_is_named_at_once(tmp_path: Path) -> None:
    """Not one by one, on four Wednesdays."""
    with pytest.raises(ConfigError, match="sender, host, recipients or teams"):
        read(tmp_path, "").ready("")


@pytest.mark.parametrize("site_url", ["", "http://gpuledger.example"])
def test_a_mail_without_a_link_that_stops_it_is_not_sent(tmp_path: Path, site_url: str) -> None:
    """RFC 8058 asks for https; on this machine alone http will do."""
    (tmp_path / "mail-password").write_text("hunter2")
    mail = read(tmp_path, WHOLE)
    with pytest.raises(ConfigError, match="site_url must be an address like"):
        mail.ready(site_url)
    assert mail.ready("https://gpuledger.example") == mail.ready("http://127.0.0.1:8470") == mail


def test_a_password_is_read_from_its_file_and_never_shown(tmp_path: Path) -> None:
    """Its last line end is not part of it."""
    found = read(tmp_path, WHOLE)
    (tmp_path / "mail-password").write_text("hunter2\n")
    assert found.password() == "hunter2"
    assert "hunter2" not in repr(found)
    (tmp_path / "mail-password").write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        found.password()
