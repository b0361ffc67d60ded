"""TLS in process: a real server process, a real certificate, and one that is renewed while it runs."""

import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import FastAPI

from agent.connection import trusting
from collector.access.open_access import access_of, check_certificate
from collector.config import CollectorConfig
from collector.errors import ConfigError
from collector.http.server import settings_of
from tests.collector.access.authority import Authority, Signed
from tests.collector.access.conftest import TOKEN
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The site's authority."""
    return Authority(tmp_path_factory.mktemp("authority"))


def settings(signed: Signed) -> CollectorConfig:
    """Return the settings of a server with this certificate."""
    return CollectorConfig(tls_certificate=str(signed.certificate), tls_key=str(signed.key))


def name_shown(port: int, authority: Authority) -> str:
    """Connect as an agent does, and return the name on the certificate that is shown."""
    context = trusting(authority.certificate)
    plain = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
    with plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
        certificate = secure.getpeercert()
        assert certificate is not None
        return str(certificate["subject"])


@contextmanager
def served(folder: Path, signed: Signed) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run `gpuledger serve --only collector` with this certificate."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    flags = ["--listen", f"127.0.0.1:{port}", "--store", str(folder / "s.duckdb"), "--lake", "none"]
    flags += ["--tls-certificate", str(signed.certificate), "--tls-key", str(signed.key)]
    line = [sys.executable, "-m", "gpuledger", "serve", "--only", "collector", *flags]
    environment = os.environ | {"GPULEDGER_COLLECTOR_TOKENS": TOKEN}
    server = subprocess.Popen(line, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        yield server, port
    finally:
        server.terminate()
        server.wait(PATIENCE_SECONDS)
        assert server.stderr is not None
        server.stderr.close()


def shown_at_last(server: "subprocess.Popen[str]", port: int, authority: Authority, unlike: str = "") -> str:
    """Return the name that is shown once the server answers, with another certificate than `unlike`."""

    def shown() -> str | None:
        try:
            name = name_shown(port, authority)
        except OSError:
            return None
        return name if name != unlike else None

    return until(shown, "the server shows its certificate", process=server)


def test_a_certificate_is_renewed_without_a_restart(tmp_path: Path, authority: Authority) -> None:
    """SIGHUP; and one that cannot be used changes nothing."""
    first, second = authority.server(), authority.server()
    here = Signed(tmp_path / "server.pem", tmp_path / "server.key")
    here.certificate.write_bytes(first.certificate.read_bytes())
    here.key.write_bytes(first.key.read_bytes())
    with served(tmp_path, here) as (server, port):
        before = shown_at_last(server, port, authority)
        here.certificate.write_bytes(second.certificate.read_bytes())
        server.send_signal(signal.SIGHUP)  # the key is not there yet: the old one stays
        assert server.stderr is not None
        assert any("the old certificate stays" in line for line in iter(server.stderr.readline, ""))
        assert name_shown(port, authority) == before
        here.key.write_bytes(second.key.read_bytes())
        server.send_signal(signal.SIGHUP)
        assert shown_at_last(server, port, authority, unlike=before) != before


def test_a_renewed_certificate_is_served_without_a_signal(tmp_path: Path, authority: Authority) -> None:
    """Who renews it often tells nobody: it was renewed on the disk, and clients saw it end."""
    first, second = authority.server(), authority.server()
    here = Signed(tmp_path / "live.pem", tmp_path / "live.key")

    def turn(signed: Signed) -> None:
        for link, target in ((here.certificate, signed.certificate), (here.key, signed.key)):
            (tmp_path / "new").symlink_to(target)
            (tmp_path / "new").rename(link)

    turn(first)
    with served(tmp_path, here) as (server, port):
        before = shown_at_last(server, port, authority)
        turn(second)
        assert shown_at_last(server, port, authority, unlike=before) != before


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[int]:
    """The port of a server that shows its certificate."""
    with served(tmp_path_factory.mktemp("served"), authority.server()) as (server, port):
        shown_at_last(server, port, authority)
        yield port


def test_plain_http_gets_nothing_from_a_server_with_tls(port: int) -> None:
    """A token that is sent in the clear by mistake is not even answered."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" not in plain.recv(1000)


@pytest.mark.parametrize(
    ("protocol", "words"), [("-tls1_1", "Cipher is (NONE)"), ("-tls1_2", "New, TLSv1.2, Cipher is ECDHE")]
)
def test_an_old_protocol_is_refused(port: int, authority: Authority, protocol: str, words: str) -> None:
    """TLS 1.2 is the least, also for a client that would take less."""
    willing = [protocol, "-cipher", "ALL:@SECLEVEL=0", "-CAfile", str(authority.certificate)]
    line = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *willing]
    asked = subprocess.run(line, input="", capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert words in asked.stdout + asked.stderr


@pytest.mark.parametrize("wrong", ["missing", "empty", "other"])
def test_a_certificate_that_cannot_be_used_is_told_at_the_start(
    tmp_path: Path, authority: Authority, wrong: str
) -> None:
    """One sentence that names both files, exit 2, and never the key's content."""
    signed, other = authority.server(), authority.server()
    key = {"missing": tmp_path / "none", "empty": tmp_path / "empty", "other": other.key}[wrong]
    (tmp_path / "empty").write_text("")
    with pytest.raises(ConfigError, match=r"collector\.tls_certificate .* and collector\.tls_key .* cannot be used"):
        check_certificate(settings(Signed(signed.certificate, key)))
    check_certificate(settings(signed))


def test_certificate_and_key_go_together() -> None:
    """Half of it would leave the server without TLS, and nobody the wiser."""
    with pytest.raises(ConfigError, match="go together"):
        CollectorConfig(tls_certificate="server.pem")


@pytest.mark.parametrize(("listen", "warns"), [("127.0.0.1:1", False), ("[::1]:1", False), ("0.0.0.0:1", True)])
def test_plain_text_on_a_network_is_warned_of(
    listen: str, warns: bool, caplog: pytest.LogCaptureFixture, authority: Authority
) -> None:
    """Once at the start; not on loopback, and not with a certificate."""
    signed = authority.server()
    with caplog.at_level(logging.WARNING):
        access_of(CollectorConfig(listen=listen), None).registry.close()
        secure = settings(signed)
        access_of(replace(secure, listen=listen), None).registry.close()
    said = [record.message for record in caplog.records]
    assert [f"keys and names travel to and from {listen} unencrypted" in one for one in said] == [True] * warns


def test_a_certificate_that_does_not_name_its_authority_s_key_is_believed_on_every_python() -> None:
    """Since 3.13 Python refuses those of many sites; an agent is not to fall silent by its host's upgrade."""
    assert not trusting(None).verify_flags & ssl.VERIFY_X509_STRICT


def test_old_versions_of_tls_are_spoken_with_nobody() -> None:
    """Where Python leaves it to the system, Debian's says yes to 1.0: who sends a key says no itself."""
    assert trusting(None).minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_server_speaks_no_old_version_of_tls(authority: Authority) -> None:
    """It is said by us, and not left to what Python was built with."""
    app = FastAPI()
    app.state.entrance = app
    served = settings_of(app, settings(authority.server()))
    assert served.ssl is not None
    assert served.ssl.minimum_version >= ssl.TLSVersion.TLSv1_2
