"""Mails are handed to a real server on loopback: over verified TLS, each once, and what goes wrong is told."""

import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.interfaces.mail.sending import (
    FIRST_WAIT_US,
    LONGEST_WAIT_US,
    MOST_ATTEMPTS,
    LaterError,
    MailError,
    Post,
    RefusedError,
    UnreachableError,
    send_due,
    wait_us,
)
from collector.registry import Mails, Queued, Registry, Subscription, open_registry
from collector.registry.mails import CLAIM_US
from tests.analyzer.interfaces.conftest import Served
from tests.analyzer.interfaces.mail_smtp import PASSWORD, Mailbox, certificate, running
from tests.waiting import PATIENCE_SECONDS

BODY = b"Subject: a week\r\n\r\nwords\r\n"
NOW = 1_795_000_000_000_000
HOUR_US = 3_600_000_000


class Clock:
    """A time that only tests move."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        """Return microseconds UTC."""
        return self.now


def wait(registry: Registry, *addresses: str, period: str = "2026-W46", end: int = NOW) -> None:
    """Let a mail to each address wait."""
    for address in addresses:
        registry.mails.subscribe(Subscription(address, "fleet", address, NOW))
        registry.mails.queue(Queued(address, period, end, BODY.decode()), NOW)


def test_it_goes_over_tls_with_a_password(served: Served) -> None:
    """What stands in a mail is the company's bill."""
    with Post(served.settings) as post:
        post.deliver("a@example.com", BODY)
        post.deliver("b@example.com", BODY)
    assert [address for address, _ in served.mailbox.got] == ["a@example.com", "b@example.com"]
    assert served.mailbox.got[0][1].replace(b"\r\n", b"\n").startswith(b"Subject: a week")
    assert served.mailbox.sessions == [True, True]


def test_a_certificate_that_is_not_trusted_is_not_talked_to(served: Served, tmp_path: Path) -> None:
    """Whoever stands between would get the password."""
    other = tmp_path / "other"
    other.mkdir()
    with (
        Post(replace(served.settings, ca=certificate(other)[0])) as post,
        pytest.raises(UnreachableError, match="certificate that is not trusted"),
    ):
        post.deliver("a@example.com", BODY)
    with Post(replace(served.settings, host="localhost")) as post, pytest.raises(UnreachableError):  # another name
        post.deliver("a@example.com", BODY)
    assert served.mailbox.got == []


def test_a_server_without_starttls_gets_nothing(served: Served) -> None:
    """Falling back to plain text is what an attacker would wish for."""
    mailbox = Mailbox()
    with (
        running(mailbox, None, asks=False) as port,
        Post(replace(served.settings, port=port)) as post,
        pytest.raises(UnreachableError, match="does not support"),
    ):
        post.deliver("a@example.com", BODY)
    assert mailbox.got == []


def test_a_wrong_password_is_told_without_it(served: Served, tmp_path: Path) -> None:
    """Errors end in logs."""
    wrong = tmp_path / "wrong"
    wrong.write_text("hunter2hunter2")
    with (
        Post(replace(served.settings, password_file=wrong)) as post,
        pytest.raises(UnreachableError, match="rejects the user or the password") as failed,
    ):
        post.deliver("a@example.com", BODY)
    assert "hunter2" not in str(failed.value)


def test_a_password_file_that_is_gone_is_told(served: Served, tmp_path: Path) -> None:
    """A credential that was not handed over is a setting that is wrong."""
    settings = replace(served.settings, password_file=tmp_path / "gone")
    with Post(settings) as post, pytest.raises(ConfigError, match="No such file"):
        post.deliver("a@example.com", BODY)


def test_nobody_there_is_told(served: Served) -> None:
    """A closed port, and a server that says nothing at all."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = replace(served.settings, port=free.getsockname()[1])
        with Post(closed) as post, pytest.raises(UnreachableError, match="cannot be reached"):
            post.deliver("a@example.com", BODY)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        settings = replace(served.settings, port=mute.getsockname()[1], timeout_seconds=1)
        with Post(settings) as post, pytest.raises(UnreachableError, match="timed out"):
            post.deliver("a@example.com", BODY)


def test_a_server_that_scans_a_mail_before_it_takes_it_is_waited_for(served: Served) -> None:
    """RFC 5321, 4.5.3.2.6: ten minutes. Whoever hangs up sooner sends again what the server then takes all the same."""
    served.mailbox.scans_seconds = 1.5
    with Post(replace(served.settings, timeout_seconds=1)) as post:
        post.deliver("a@example.com", BODY)
        served.mailbox.scans_seconds = 0.0
        post.deliver("b@example.com", BODY)
        assert post._smtp is not None
        assert post._smtp.sock is not None
        assert post._smtp.sock.gettimeout() == 1  # the other commands are waited for as the settings say
    assert [address for address, _ in served.mailbox.got] == ["a@example.com", "b@example.com"]


@pytest.mark.parametrize(
    ("reply", "error"),
    [("550 no such user", RefusedError), ("452 mailbox is full", LaterError), ("554 we want no mail", RefusedError)],
)
def test_what_the_server_says_of_one_mail_is_of_that_mail(served: Served, reply: str, error: type[MailError]) -> None:
    """4xx is later, 5xx is never (RFC 5321, 4.2.1), before and after the data; the next mail goes out all the same."""
    served.mailbox.replies["a@example.com"] = reply
    served.mailbox.after_data["b@example.com"] = reply
    with Post(served.settings) as post:
        for address in ("a@example.com", "b@example.com"):
            with pytest.raises(error, match=reply.partition(" ")[2]):
                post.deliver(address, BODY)
        post.deliver("c@example.com", BODY)
    assert [address for address, _ in served.mailbox.got] == ["c@example.com"]


@pytest.mark.parametrize("answers", [1, 2, 3, 4], ids=["at MAIL", "at RCPT", "at DATA", "after the data"])
def test_a_server_that_hangs_up_is_tried_again_later(served: Served, answers: int) -> None:
    """Its answer is not known: neither sent nor refused may be noted, at whatever word it dies."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def serve() -> None:
            caller, _ = listening.accept()
            with caller:
                caller.sendall(b"220 hello\r\n")
                for number in range(answers):
                    caller.recv(1000)
                    caller.sendall(b"354 go on\r\n" if number == 3 else b"250 hello\r\n")
                caller.recv(1000)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port = listening.getsockname()[1]
        settings = replace(served.settings, port=port, security="none", user="", password_file=None)
        with Post(settings) as post, pytest.raises(LaterError, match="closed the connection"):
            post.deliver("a@example.com", BODY)
        thread.join(PATIENCE_SECONDS)


def test_each_mail_is_sent_once(served: Served, registry: Registry) -> None:
    """Whoever runs it again, by hand or by timer, sends nothing twice."""
    wait(registry, "a@example.com", "b@example.com")
    for _ in range(3):
        with Post(served.settings) as post:
            send_due(registry.mails, post.deliver, Clock())
        wait(registry, "a@example.com", "b@example.com")
    assert sorted(address for address, _ in served.mailbox.got) == ["a@example.com", "b@example.com"]


def test_unreachable_sends_nothing_by_halves(served: Served, registry: Registry) -> None:
    """Those that had their mail keep it, the others stay in the queue, and the next run goes on with them."""
    wait(registry, "a@example.com", "b@example.com", "c@example.com")
    clock = Clock()
    calls: list[str] = []
    with Post(served.settings) as post:

        def first_alone(address: str, body: bytes) -> None:
            if calls:
                raise UnreachableError("gone")
            calls.append(address)
            post.deliver(address, body)

        done = send_due(registry.mails, first_alone, clock)
        assert (done.sent, done.unreachable, len(done.later)) == (["a@example.com"], "gone", 1)
        clock.now += HOUR_US
        done = send_due(registry.mails, post.deliver, clock)
    assert sorted(done.sent) == ["b@example.com", "c@example.com"]
    assert len(served.mailbox.got) == 3


def test_the_queue_outlives_the_process(served: Served, tmp_path: Path) -> None:
    """It is in the registry, with the bytes of the mails."""
    path = tmp_path / "again.sqlite"
    served.mailbox.replies["a@example.com"] = "451 try later"
    clock = Clock()
    with open_registry(path) as registry, Post(served.settings) as post:
        wait(registry, "a@example.com")
        assert send_due(registry.mails, post.deliver, clock).later
    served.mailbox.replies.clear()
    with open_registry(path) as registry, Post(served.settings) as post:
        assert send_due(registry.mails, post.deliver, clock).sent == []  # its turn has not come
        clock.now += FIRST_WAIT_US
        assert send_due(registry.mails, post.deliver, clock).sent == ["a@example.com"]


def test_later_has_a_bound(served: Served, registry: Registry) -> None:
    """Waits grow, and after the last try it is noted as failed with what the server said."""
    served.mailbox.replies["a@example.com"] = "451 greylisted"
    wait(registry, "a@example.com")
    clock, failed = Clock(), []
    for _ in range(MOST_ATTEMPTS):
        with Post(served.settings) as post:
            failed = send_due(registry.mails, post.deliver, clock).failed
        clock.now += LONGEST_WAIT_US
    assert failed == [f"a@example.com: given up after {MOST_ATTEMPTS} attempts: 451 greylisted"]
    (send,) = registry.mails.sends()
    assert (send.state, send.attempts) == ("failed", MOST_ATTEMPTS)
    assert sum(map(wait_us, range(1, MOST_ATTEMPTS))) < 4 * 24 * HOUR_US


def test_refused_stays_refused(served: Served, registry: Registry) -> None:
    """A server that is asked again each hour for who does not exist lists us as senders of spam."""
    served.mailbox.replies["a@example.com"] = "550 5.1.1 no such user"
    wait(registry, "a@example.com")
    for _ in range(2):
        with Post(served.settings) as post:
            send_due(registry.mails, post.deliver, Clock())
        wait(registry, "a@example.com")
    (send,) = registry.mails.sends()
    assert (send.state, send.attempts, send.told) == ("failed", 1, "550 5.1.1 no such user")


class KilledError(BaseException):
    """As a power cut: nothing that stands behind it runs."""


def test_killed_between_sending_and_noting_it_comes_once_more_and_no_more(served: Served, registry: Registry) -> None:
    """It errs to a second copy with the same bytes; a second cut ends it. Lost is never, twice is the most."""
    wait(registry, "a@example.com")
    clock = Clock()
    for lost in range(3):
        mail = registry.mails.claim(clock())
        if lost == 2:
            assert mail is None
            break
        assert mail is not None
        with Post(served.settings) as post:
            post.deliver(mail.address, mail.body.encode())
        assert registry.mails.claim(clock()) is None  # while it may still be alive, nobody else takes it
        clock.now += CLAIM_US + 1
    (one, other) = served.mailbox.got
    assert one == other
    (send,) = registry.mails.sends()
    assert send.state == "failed"
    assert "interrupted twice" in send.told


def test_killed_before_sending_it_comes_once(served: Served, registry: Registry) -> None:
    """The claim of who died ends, and the mail goes out."""
    wait(registry, "a@example.com")
    clock = Clock()

    def cut(address: str, body: bytes) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        send_due(registry.mails, cut, clock)
    clock.now += CLAIM_US + 1
    with Post(served.settings) as post:
        assert send_due(registry.mails, post.deliver, clock).sent == ["a@example.com"]
    assert len(served.mailbox.got) == 1


def test_two_processes_share_the_work(served: Served, registry: Registry) -> None:
    """A timer and a person at once: every mail is claimed by one of them."""
    addresses = [f"r{number}@example.com" for number in range(12)]
    wait(registry, *addresses)

    def work(mails: Mails) -> None:
        with Post(served.settings) as post:
            send_due(mails, post.deliver, Clock())

    threads = [threading.Thread(target=work, args=(registry.mails,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert sorted(address for address, _ in served.mailbox.got) == sorted(addresses)


def test_a_newer_week_takes_the_place_of_one_that_waits(served: Served, registry: Registry) -> None:
    """After days without a server nobody wants all weeks at once."""
    wait(registry, "a@example.com", period="2026-W46", end=NOW)
    wait(registry, "a@example.com", period="2026-W47", end=NOW + 1)
    with Post(served.settings) as post:
        assert len(send_due(registry.mails, post.deliver, Clock()).sent) == 1
    states = {one.period: one.state for one in registry.mails.sends()}
    assert states == {"2026-W46": "dropped", "2026-W47": "sent"}


def test_no_secret_rests_where_mails_do(served: Served, registry: Registry, tmp_path: Path) -> None:
    """The password stays in its file, and bytes that were sent are forgotten."""
    wait(registry, "a@example.com")
    with Post(served.settings) as post:
        send_due(registry.mails, post.deliver, Clock())
    registry.close()
    content = b"".join(path.read_bytes() for path in tmp_path.glob("store.duckdb.registry.sqlite*"))
    assert PASSWORD.encode() not in content
