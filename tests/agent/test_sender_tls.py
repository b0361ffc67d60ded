"""TLS to the collector: a private authority, the right host, and nothing said to anybody else."""

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.clock import Clock
from agent.delivery.link import Backoff, Link
from agent.delivery.sender import Sender
from agent.errors import ConfigError
from agent.spool.queue import Spool, open_spool
from tests.agent.batches import maker
from tests.agent.receiver import Receiver, Reply


class Authority:
    """A private certificate authority, made by openssl, and what it signs."""

    def __init__(self, directory: Path, name: str) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl is missing: apt-get install openssl")
        self.certificate, self._key = directory / f"{name}.pem", directory / f"{name}.key"
        self._directory = directory
        self._openssl("req", "-x509", *self._new(self._key), "-subj", f"/CN={name}", "-out", str(self.certificate))

    def server(self, name: str, days: int = 2) -> ssl.SSLContext:
        """Return what a server of this name needs, like DNS:localhost or IP:127.0.0.1."""
        key, request, signed, names = (self._directory / f"server.{kind}" for kind in ("key", "csr", "pem", "cnf"))
        names.write_text(f"subjectAltName={name}\n")
        self._openssl("req", *self._new(key), "-subj", "/CN=server", "-out", str(request))
        signing = ("-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial", "-days", str(days))
        self._openssl("x509", "-req", "-in", str(request), *signing, "-extfile", str(names), "-out", str(signed))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(signed, key)
        return context

    def _new(self, key: Path) -> tuple[str, ...]:
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", str(key))

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return the authority that the agent is told to trust."""
    return Authority(tmp_path_factory.mktemp("authority"), "site")


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    """Return a spool with two batches."""
    queue = open_spool(tmp_path / "spool", 10**7, 10**7, sync=False)
    for _ in range(2):
        queue.append(maker())
    yield queue
    queue.close()


def step(spool: Spool, url: str, ca_file: Path | None, steps: int = 1) -> list[bool]:
    """Send with a token, and return of each step whether it has to wait."""
    sending = Sender(spool, Link(url, "secret", ca_file), Clock(), Backoff(lambda: 0.0))
    waits = [sending.step(0) > 0 for _ in range(steps)]
    sending.close()
    return waits


def test_a_private_authority_is_trusted_where_it_is_named(authority: Authority, spool: Spool) -> None:
    """`ca_file`: most sites have an authority of their own; and one handshake serves many batches."""
    with Receiver(tls=authority.server("IP:127.0.0.1")) as receiver:
        assert step(spool, receiver.url, authority.certificate, 2) == [False, False]
        assert receiver.authorizations == ["Bearer secret"] * 2
        assert receiver.connections == 1
    assert spool.waiting == 0


def test_an_authority_that_was_not_named_is_not_trusted(authority: Authority, spool: Spool, tmp_path: Path) -> None:
    """Neither by the system's certificates, nor by those of somebody else."""
    with Receiver(tls=authority.server("IP:127.0.0.1")) as receiver:
        assert step(spool, receiver.url, None) == [True]
        assert step(spool, receiver.url, Authority(tmp_path, "other").certificate) == [True]
        assert (receiver.bodies, receiver.authorizations) == ([], [])
    assert spool.waiting == 2


def test_a_certificate_of_another_host_is_refused(authority: Authority, spool: Spool) -> None:
    """The authority signs for every host of a site, and any of them could stand in the way."""
    with Receiver(tls=authority.server("DNS:other.example")) as receiver:
        assert step(spool, receiver.url, authority.certificate) == [True]
        assert (receiver.bodies, receiver.authorizations) == ([], [])


def test_https_to_a_plain_port_says_nothing(authority: Authority, spool: Spool) -> None:
    """A collector that lost its certificate must not be fallen back to in the clear."""
    with Receiver() as receiver:
        assert step(spool, f"https://127.0.0.1:{receiver.port}", authority.certificate) == [True]
        assert (receiver.bodies, receiver.authorizations) == ([], [])


def test_an_owner_is_followed_over_tls_alone(authority: Authority, spool: Spool) -> None:
    """From HTTPS to HTTP never; to another host only where its certificate is of the same authority."""
    with (
        Receiver(tls=authority.server("DNS:localhost")) as owner,
        Receiver() as plain,
        Receiver(tls=authority.server("IP:127.0.0.1")) as front,
    ):
        front.answer = lambda body: Reply(421, headers={"Location": plain.url})
        assert step(spool, front.url, authority.certificate) == [True]
        assert plain.connections == 0
        front.answer = lambda body: Reply(421, headers={"Location": f"https://localhost:{owner.port}"})
        assert step(spool, front.url, authority.certificate) == [False]
        assert owner.authorizations == ["Bearer secret"]
        front.answer = lambda body: Reply(421, headers={"Location": owner.url})  # a name that its certificate has not
        assert step(spool, front.url, authority.certificate) == [True]
        assert len(owner.bodies) == 1


@pytest.mark.parametrize(
    "content", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_a_file_without_certificates_is_named_at_the_start(tmp_path: Path, content: str) -> None:
    """An agent that trusts nobody would only say so in its first handshake."""
    (tmp_path / "ca.pem").write_text(content)
    with pytest.raises(ConfigError, match=r"cannot read the certificates in .*ca\.pem"):
        Link("https://host:8470", None, tmp_path / "ca.pem")


def test_old_versions_of_tls_are_refused() -> None:
    """TLS 1.0 and 1.1 are broken (RFC 8996)."""
    link = Link("https://host:8470")
    assert link._connection.tls is not None
    assert link._connection.tls.minimum_version >= ssl.TLSVersion.TLSv1_2
