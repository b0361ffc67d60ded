"""The sender: every answer of a collector has its consequence, and no batch is given up that can still arrive."""

import ssl
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.clock import Clock
from agent.delivery.link import LONGEST_ASKED_SECONDS, LONGEST_SECONDS, Backoff, Link, retry_after
from agent.delivery.sender import Sender
from agent.errors import ConfigError
from agent.spool.queue import Spool
from agent.spool.segment_store import SegmentStore
from tests.agent.batches import identity, maker
from tests.agent.receiver import Receiver, Reply
from tests.waiting import PATIENCE_SECONDS, until


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    """Return a spool with three batches in it."""
    queue = Spool(SegmentStore(tmp_path), 10**7, 10**7)
    for _ in range(3):
        queue.append(maker())
    yield queue
    queue.close()


SENDERS: list[Sender] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close what a test opened."""
    yield
    while SENDERS:
        SENDERS.pop().close()


def sender(spool: Spool, url: str, token: str | None = None) -> Sender:
    """Return a sender whose waits are not random."""
    SENDERS.append(Sender(spool, Link(url, token), Clock(), Backoff(lambda: 0.0)))
    return SENDERS[-1]


def sequences(receiver: Receiver) -> list[int]:
    """Return the sequences of what came, in order."""
    return [identity(body)[1] for body in receiver.bodies]


def test_batches_are_delivered_in_order_over_one_connection(spool: Spool) -> None:
    """An outage leaves thousands behind: a handshake for each would take longer than the outage."""
    with Receiver() as receiver:
        sending = sender(spool, receiver.url, "secret")
        assert [sending.step(0) for _ in range(4)] == [0.0] * 4
        assert sequences(receiver) == [0, 1, 2]
        assert receiver.connections == 1
        assert receiver.authorizations == ["Bearer secret"] * 3
    assert (spool.waiting, sending.counts.delivered) == (0, 3)
    assert abs(sending.counts.clock_offset_seconds or 99) < 5


def test_an_address_may_have_a_path(spool: Spool) -> None:
    """Collectors live behind proxies."""
    with Receiver() as receiver:
        sending = sender(spool, f"{receiver.url}/gpu/")
        assert sending.step(0) > 0, "the stand-in knows no such path"
    assert spool.waiting == 3


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_will_never_be_taken_is_set_aside(spool: Spool, status: int, tmp_path: Path) -> None:
    """A batch that is refused for what it is would block all that follow it for ever."""
    replies = iter([Reply(status, {"error": "no", "reason": "envelope"})])
    with Receiver() as receiver:
        receiver.answer = lambda body: next(replies, None) or receiver.accept(body)
        sending = sender(spool, receiver.url)
        assert [sending.step(0) for _ in range(3)] == [0.0] * 3
    assert (sending.counts.refused, sending.counts.delivered, spool.quarantined) == (1, 2, 1)
    assert len(list((tmp_path / "quarantine").iterdir())) == 1


@pytest.mark.parametrize("status", [301, 401, 403, 404, 408, 421, 426, 429, 500, 502, 503, 507])
def test_everything_else_waits(spool: Spool, status: int) -> None:
    """A wrong token, a full queue, an older collector: people put that right, and the batches must still be there."""
    with Receiver(lambda body: Reply(status)) as receiver:
        sending = sender(spool, receiver.url)
        assert sending.step(0) > 0
    assert (spool.waiting, spool.quarantined, sending.counts.failures) == (3, 0, 1)


def test_nobody_there_and_no_answer_are_failures_that_pass(spool: Spool) -> None:
    """Whether the batch arrived is not known: it is sent again, and the collector counts it once."""
    with Receiver(lambda body: None) as receiver:
        url = receiver.url
        sending = sender(spool, url)
        assert sending.step(0) > 0
        receiver.answer = receiver.accept
        assert sending.step(0) == 0.0
        assert sequences(receiver) == [0, 0]
    assert sending.step(0) > 0
    assert spool.waiting == 2


def test_an_older_collector_is_asked_rarely(spool: Spool) -> None:
    """426 passes with an upgrade, not with patience."""
    with Receiver(lambda body: Reply(426)) as receiver:
        assert sender(spool, receiver.url).step(0) >= LONGEST_SECONDS


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_obeyed(spool: Spool, status: int) -> None:
    """The collector knows when its queue will be empty; we do not."""
    with Receiver(lambda body: Reply(status, headers={"Retry-After": "17"})) as receiver:
        assert sender(spool, receiver.url).step(0) == 17.0


def test_a_taken_sequence_begins_a_new_stream(spool: Spool) -> None:
    """A cloned host has another host's numbers; its readings are its own and must count."""
    old = spool.stream
    replies = iter([Reply(409, {"error": "taken", "reason": "conflict"})])
    with Receiver() as receiver:
        receiver.answer = lambda body: next(replies, None) or receiver.accept(body)
        sending = sender(spool, receiver.url)
        assert [sending.step(0) for _ in range(5)] == [0.0] * 5
        streams = [identity(body) for body in receiver.bodies]
    assert streams == [(old, 0), *((spool.stream, sequence) for sequence in range(3))]
    assert spool.stream != old
    assert sending.counts.streams_begun == 1


def test_the_owner_of_a_stream_is_followed_once_and_remembered(spool: Spool) -> None:
    """Two collectors that point at each other must not make an agent run in circles."""
    with Receiver() as owner, Receiver() as front:
        front.answer = lambda body: Reply(421, headers={"Location": f"{owner.url}/v1/batches"})
        sending = sender(spool, front.url)
        assert [sending.step(0) for _ in range(3)] == [0.0] * 3
        assert (len(front.bodies), len(owner.bodies)) == (1, 3)
        owner.answer = lambda body: Reply(421, headers={"Location": front.url})
        spool.append(maker())
        assert sending.step(0) > 0, "once, and not round and round"


def test_an_owner_that_is_gone_is_asked_for_at_the_front_door(spool: Spool) -> None:
    """A collector that died no longer owns anything."""
    with Receiver() as front:
        with Receiver() as owner:
            front.answer = lambda body: Reply(421, headers={"Location": owner.url})
            sending = sender(spool, front.url)
            assert sending.step(0) == 0.0
        assert sending.step(0) > 0
        front.answer = front.accept
        assert sending.step(0) == 0.0
    assert sequences(front)[-1] == 1


@pytest.mark.parametrize("location", ["", "ftp://elsewhere", "not an address", "//host"])
def test_an_owner_without_an_address_is_no_owner(spool: Spool, location: str) -> None:
    """A token must not be sent wherever a header points."""
    with Receiver(lambda body: Reply(421, headers={"Location": location})) as receiver:
        assert sender(spool, receiver.url).step(0) > 0
        assert len(receiver.bodies) == 1


def test_a_secret_never_follows_from_https_to_http() -> None:
    """Whoever can answer 421 would otherwise read the token."""
    link = Link("https://collector.example:8470", "secret")
    assert link.owner("http://collector.example:8470") is None
    assert link.owner("https://other.example:8470") is not None


def test_what_was_sealed_and_is_lost_is_sent_again(spool: Spool) -> None:
    """A collector that went back in time (a restored disk) needs what we still keep."""
    sealed = iter([1, 1, -1, -1, -1, -1])
    with Receiver(lambda body: Reply(body={"sealed_through": next(sealed)})) as receiver:
        sending = sender(spool, receiver.url)
        for _ in range(5):
            sending.step(0)
        assert sequences(receiver) == [0, 1, 2, 2]


def test_an_answer_that_is_no_json_is_still_an_answer(spool: Spool) -> None:
    """A proxy says 502 in HTML."""
    with Receiver() as receiver:
        receiver.answer = lambda body: Reply(502, headers={"Content-Type": "text/html"})
        assert sender(spool, receiver.url).step(0) > 0


def test_a_thread_of_its_own_delivers_and_stops(spool: Spool) -> None:
    """The beat must not wait for a network, nor the end of the agent for a batch that does not come."""
    with Receiver() as receiver:
        sending = sender(spool, receiver.url)
        sending.start()
        until(lambda: not spool.waiting, "all is delivered")
        sending.stop(PATIENCE_SECONDS)
        assert sequences(receiver) == [0, 1, 2]


def test_rows_that_are_not_believed_are_counted_and_said_once(spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    """The batch is accepted, so that nothing else would tell whoever runs the host that its driver talks nonsense."""
    with Receiver() as receiver:

        def doubt(body: bytes) -> Reply:
            reply = receiver.accept(body)
            return Reply(200, reply.body | {"quarantined": 2, "reasons": ["power_watts is 1e19"]})

        receiver.answer = doubt
        sending = sender(spool, receiver.url)
        assert [sending.step(0) for _ in range(3)] == [0.0] * 3
        assert (sending.counts.delivered, sending.counts.rows_put_aside) == (3, 6)
    said = [record.message for record in caplog.records if "implausible" in record.message]
    assert said == ["the collector set a row aside as implausible: power_watts is 1e19; further ones are only counted"]


def test_trouble_is_logged_when_it_begins_and_when_it_ends(spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    """An outage of a night is two lines, not two thousand."""
    replies = iter([Reply(503), Reply(503), Reply(503)])
    with Receiver() as receiver, caplog.at_level("INFO"):
        receiver.answer = lambda body: next(replies, None) or receiver.accept(body)
        sending = sender(spool, receiver.url)
        for _ in range(6):
            sending.step(0)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


@pytest.mark.parametrize("url", ["", "host:8470", "ftp://host", "http://", "http:///path"])
def test_what_is_no_address_is_named(url: str) -> None:
    """Found at the start, in one sentence."""
    with pytest.raises(ConfigError, match="write it as http://host:8470"):
        Link(url)


def test_a_certificate_file_that_is_none_is_named(tmp_path: Path) -> None:
    """Found at the start, not in the first handshake."""
    with pytest.raises(ConfigError, match="cannot read the certificates"):
        Link("https://host:8470", None, tmp_path / "none.pem")


def test_https_checks_certificates() -> None:
    """A token is worth a check."""
    link = Link("https://host:8470")
    assert link._connection.tls is not None
    assert link._connection.tls.verify_mode == ssl.CERT_REQUIRED
    assert link._connection.tls.check_hostname


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=60))
def test_waits_double_up_to_a_limit_and_never_vanish(fractions: list[float]) -> None:
    """A thousand agents must not come back in the same second, nor hammer, nor sleep for a day."""
    draws = iter(fractions)
    backoff = Backoff(lambda: next(draws))
    for failures in range(len(fractions)):
        longest = min(LONGEST_SECONDS, 2.0**failures)
        assert longest / 2 <= backoff.seconds() <= longest
    backoff.succeeded()
    assert Backoff(lambda: 0.0).seconds(asked=10**9) == LONGEST_ASKED_SECONDS


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("120", 120.0),
        (" 5 ", 5.0),
        ("-3", None),
        ("soon", None),
        ("", None),
        ("Fri, 21 Nov 2026 12:00:30 GMT", 30.0),
        ("Fri, 21 Nov 2026 11:00:00 GMT", 0.0),
    ],
)
def test_retry_after_has_two_forms(header: str | None, seconds: float | None) -> None:
    """RFC 9110 allows seconds and dates; proxies send either."""
    assert retry_after(header, datetime.fromisoformat("2026-11-21T12:00:00+00:00")) == seconds
