"""A real SMTP server on loopback, with STARTTLS and AUTH, and the certificates that it shows."""

import asyncio
import datetime
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

USER, PASSWORD = "mailer", "correct horse battery staple"


@dataclass
class Mailbox:
    """What the server took, and what it says to some: `replies` by address, `after_data` to what was handed over."""

    got: list[tuple[str, bytes]] = field(default_factory=list)
    replies: dict[str, str] = field(default_factory=dict)
    after_data: dict[str, str] = field(default_factory=dict)
    sessions: list[bool] = field(default_factory=list)  # whether it was encrypted
    scans_seconds: float = 0.0  # how long it looks at a mail before it says that it took it

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take a recipient, or say what is to be said to it."""
        del server, session, options
        if address in self.replies:
            return self.replies[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Take a mail."""
        del server
        (address,) = envelope.rcpt_tos
        await asyncio.sleep(self.scans_seconds)
        if address in self.after_data:
            return self.after_data[address]
        self.sessions.append(session.ssl is not None)
        assert isinstance(envelope.content, bytes)
        self.got.append((address, envelope.content))
        return "250 OK"


def certificate(directory: Path, address: str = "127.0.0.1") -> tuple[Path, Path]:
    """Return the files of a certificate that signs itself, for one address, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mail")])
    now = datetime.datetime.now().astimezone()
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    shown, secret = directory / "mail.pem", directory / "mail.key"
    shown.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return shown, secret


def _authenticated(
    server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: LoginPassword
) -> AuthResult:
    del server, session, envelope, mechanism
    right = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=right, handled=right)


class AnyPort(Controller):
    """A controller that takes any free port; aiosmtpd's own then calls on port 0."""

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        super()._trigger_server()  # type: ignore[no-untyped-call]


@contextmanager
def running(mailbox: Mailbox, files: tuple[Path, Path] | None, *, asks: bool = True) -> Iterator[int]:
    """Yield the port of a server that offers STARTTLS where it has a certificate, and asks for a password or not."""
    context = None
    if files is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
    controller = AnyPort(
        mailbox,
        hostname="127.0.0.1",
        port=0,
        tls_context=context,
        require_starttls=context is not None,
        authenticator=_authenticated if asks else None,
        auth_required=asks,
        auth_require_tls=context is not None,
    )
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()
