"""Hand mails to an SMTP server over TLS that is verified; what it does not take now waits its turn."""

import smtplib
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from agent.connection import trusting
from analyzer.errors import AnalyzerError
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.text.words import plain_sentence
from collector.registry import Mails, Queued


class MailError(AnalyzerError):
    """A mail could not be handed over; the message says why and carries no secret."""


class UnreachableError(MailError):
    """No mail at all can be handed to the server: nothing was said of the one that was tried."""


class LaterError(MailError):
    """The server did not take this mail for now, or its answer is not known."""


class RefusedError(MailError):
    """The server refuses this mail for good."""


_TOLD_LETTERS = 200
_GREET_SECONDS = 5
_PERMANENT = 500  # SMTP replies from here on are final (RFC 5321, 4.2.1)


_DATA_SECONDS = 600.0  # for the answer to a mail's end: a server may deliver or scan meanwhile (RFC 5321, 4.5.3.2.6)
_END = b"\r\n.\r\n"


class _PatientSmtp(smtplib.SMTP):
    """Waits for the answer to a mail as long as the standard asks: who hangs up sooner sends what was taken again."""

    def send(self, s: Any) -> None:  # noqa: ANN401 - as the library has it
        """Send, and be patient after the end of a mail."""
        super().send(s)
        if self.sock is not None and isinstance(s, bytes) and s.endswith(_END):
            self.sock.settimeout(_DATA_SECONDS)

    def data(self, msg: Any) -> tuple[int, bytes]:  # noqa: ANN401 - as the library has it
        """Hand over a mail, and return what the server says of it."""
        try:
            return super().data(msg)
        finally:
            if self.sock is not None:
                self.sock.settimeout(self.timeout)


class _PatientSmtpSsl(_PatientSmtp, smtplib.SMTP_SSL):
    """The same, of TLS from the first byte on."""


class Post:
    """A connection to the site's SMTP server, made when the first mail is handed over."""

    def __init__(self, settings: MailSettings) -> None:
        self._settings = settings
        self._smtp: smtplib.SMTP | None = None

    def deliver(self, address: str, body: bytes) -> None:
        """Hand over one mail.

        Raises:
            UnreachableError: the server does not answer, cannot be trusted, or wants no mail of ours.
            LaterError: not now (4xx), or it hung up before it answered.
            RefusedError: never (5xx).
            ConfigError: the password's file cannot be read.
        """
        smtp = self._connected()
        try:
            smtp.sendmail(self._settings.sender, [address], body)
        except smtplib.SMTPRecipientsRefused as error:
            code, said = error.recipients[address]
            raise _refusal(code, said) from error
        except smtplib.SMTPSenderRefused as error:
            raise UnreachableError(f"{self._name} does not accept our e-mails: {_words(error)}") from error
        except smtplib.SMTPResponseException as error:
            raise _refusal(error.smtp_code, error.smtp_error) from error
        except (smtplib.SMTPException, OSError) as error:
            self.close()
            raise LaterError(f"{self._name} closed the connection: {_words(error)}") from error

    def connect(self) -> None:
        """Connect, trust and log in, where that was not done yet. Raises as deliver() does of a server."""
        self._connected()

    def close(self) -> None:
        """Say good-bye."""
        smtp, self._smtp = self._smtp, None
        if smtp is not None:
            with suppress(smtplib.SMTPException, OSError):
                smtp.quit()
            smtp.close()

    def __enter__(self) -> "Post":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _name(self) -> str:
        return f"the SMTP server {self._settings.host}:{self._settings.port}"

    def _connected(self) -> smtplib.SMTP:
        if self._smtp is not None:
            return self._smtp
        password = self._settings.password()
        smtp: smtplib.SMTP | None = None
        try:
            smtp = self._opened()
            smtp.ehlo_or_helo_if_needed()
            if password is not None:
                smtp.login(self._settings.user, password)
        except (smtplib.SMTPException, OSError, ValueError) as error:
            if smtp is not None:
                smtp.close()
            raise UnreachableError(f"{self._name} {_why(error)}; nothing was sent") from error
        self._smtp = smtp
        return smtp

    def _opened(self) -> smtplib.SMTP:
        """Return a connection over which a password may go."""
        own, seconds = self._settings, float(self._settings.timeout_seconds)
        name = own.sender.rpartition("@")[2]  # what we call ourselves: this host's own name is nobody's business
        if own.security == "none":
            return _PatientSmtp(own.host, own.port, name, seconds)
        tls = trusting(own.ca)
        if own.security == "tls":
            return _PatientSmtpSsl(own.host, own.port, name, timeout=seconds, context=tls)
        smtp = _PatientSmtp(own.host, own.port, name, seconds)
        try:
            smtp.starttls(context=tls)  # without it in the server's answer this raises: never in the clear
        except BaseException:
            smtp.close()
            raise
        return smtp


def greet(settings: MailSettings) -> None:
    """Call on the server as before a mail, and send none; it is waited for no longer than GREET_SECONDS a command.

    Raises:
        UnreachableError: it does not answer, cannot be trusted, or does not know us.
        ConfigError: the password's file cannot be read.
    """
    seconds = min(settings.timeout_seconds, _GREET_SECONDS)
    with Post(replace(settings, timeout_seconds=seconds)) as post:
        post.connect()


def _refusal(code: int, said: bytes | str) -> LaterError | RefusedError:
    words = f"{code} {_clean(said)}"
    return RefusedError(words) if code >= _PERMANENT else LaterError(words)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"presents a certificate that is not trusted ({error.verify_message})"
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return f"does not support what the settings require ({_words(error)})"
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return f"rejects the user or the password ({error.smtp_code})"  # some servers repeat what they were sent
    if isinstance(error, TimeoutError):
        return "does not answer in time"
    if isinstance(error, OSError) and not isinstance(error, smtplib.SMTPException):
        return f"cannot be reached: {error.strerror or _words(error)}"
    return f"cannot be used: {_words(error)}"


def _words(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{error.smtp_code} {_clean(error.smtp_error)}"
    return _clean(str(error)) or type(error).__name__


def _clean(said: bytes | str) -> str:
    text = said.decode("ascii", "replace") if isinstance(said, bytes) else said
    return plain_sentence(text)[:_TOLD_LETTERS]


FIRST_WAIT_US = 15 * 60_000_000
LONGEST_WAIT_US = 8 * 3_600_000_000
MOST_ATTEMPTS = 12  # with these waits about two and a half days: before the next week's mail is due
_Deliver = Callable[[str, bytes], None]


@dataclass(slots=True)
class Round:
    """What one round came to, by address; `unreachable` says why nothing more was tried."""

    sent: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    unreachable: str | None = None


def wait_us(attempts: int) -> int:
    """Return how long a mail rests after so many attempts: a quarter of an hour, then twice as long each time."""
    return min(LONGEST_WAIT_US, FIRST_WAIT_US << min(attempts - 1, 16))


def send_due(mails: Mails, deliver: _Deliver, clock: Callable[[], int]) -> Round:
    """Hand over every mail that is due, one after another; `deliver` raises MailErrors, `clock` gives microseconds.

    It ends with the first mail for which the server cannot be reached: the others keep their place in the queue.
    """
    found = Round()
    while (mail := mails.claim(clock())) is not None:
        try:
            deliver(mail.address, (mail.body or "").encode("ascii"))
        except RefusedError as error:
            mails.note(mail, "failed", str(error), clock())
            found.failed.append(f"{mail.address}: {error}")
        except (LaterError, UnreachableError) as error:
            _later(mails, mail, error, clock(), found)
            if isinstance(error, UnreachableError):
                found.unreachable = str(error)
                return found
        except Exception:
            mails.note(mail, "queued", "not attempted", clock(), clock())  # ours, such as a password file that is gone
            raise
        else:
            mails.note(mail, "sent", "", clock())
            found.sent.append(mail.address)
    return found


def _later(mails: Mails, mail: Queued, error: Exception, now: int, found: Round) -> None:
    if mail.attempts >= MOST_ATTEMPTS:
        mails.note(mail, "failed", f"given up after {mail.attempts} attempts: {error}", now)
        found.failed.append(f"{mail.address}: given up after {mail.attempts} attempts: {error}")
        return
    mails.note(mail, "queued", str(error), now, now + wait_us(mail.attempts))
    found.later.append(f"{mail.address}: {error}")
