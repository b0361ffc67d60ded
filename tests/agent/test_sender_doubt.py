"""The sender in doubt: proxies, login pages, redirects and clocks must neither cost a batch nor learn the token."""

import errno
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.clock import Clock
from agent.delivery.link import LONGEST_ASKED_SECONDS, Backoff, Link, http_date, retry_after
from agent.delivery.sender import LAST_BATCHES, Sender
from agent.errors import ConfigError
from agent.spool.queue import Spool, open_spool
from agent.spool.segment_store import SegmentStore
from agent.wire.units import SECOND_US
from tests.agent.batches import identity, maker
from tests.agent.receiver import Receiver, Reply
from tests.fake_clock import FakeClock
from tests.waiting import PATIENCE_SECONDS

DAY = 86400 * SECOND_US
OPENED: list[Sender | Spool] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close what a test opened."""
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """Return a spool with three batches in it."""
    return three(open_spool(tmp_path / "spool", 10**7, 10**7, sync=False))


def three(queue: Spool) -> Spool:
    """Put three batches into a spool."""
    OPENED.append(queue)
    for _ in range(3):
        queue.append(maker())
    return queue


def sender(spool: Spool, url: str, token: str | None = None, clock: Clock | None = None) -> Sender:
    """Return a sender whose waits are not random."""
    made = Sender(spool, Link(url, token), clock or Clock(), Backoff(lambda: 0.0))
    OPENED.append(made)
    return made


def refusal(status: int, reason: str) -> Reply:
    """Return what a collector answers that refuses a batch."""
    return Reply(status, {"error": "no", "reason": reason})


STRANGE: dict[str, Reply] = {
    "a login page": Reply(200, raw=b"<html>please log in</html>"),
    "another service": Reply(200, {"status": "ok"}),
    "nothing": Reply(204, raw=b""),
    "a TLS port that hears plain HTTP": Reply(400, raw=b"<html>The plain HTTP request was sent to HTTPS port</html>"),
    "a proxy with a small limit": Reply(413, raw=b"<html>Request Entity Too Large</html>"),
    "an API gateway's conflict": Reply(409, {"error": "conflict"}),
    "an API gateway's validation": Reply(422, {"detail": []}),
    "a batch that the network cut short": refusal(400, "disconnected"),
    "a list": Reply(200, raw=b"[1]"),
    "deep JSON": Reply(200, raw=b"[" * 60_000),
    "a number beyond all": Reply(200, raw=b'{"sealed_through": 1' + b"0" * 400 + b"}"),
    "a truth": Reply(200, {"sealed_through": True}),
    "no text": Reply(500, raw=b"\xff\xfe\x00"),
    "a Location that is no address": Reply(421, headers={"Location": "http://host:99999"}),
    "a Location with an open bracket": Reply(421, headers={"Location": "http://[::1"}),
}


@pytest.mark.parametrize("who", STRANGE)
def test_only_a_collector_may_say_that_a_batch_is_over(spool: Spool, who: str) -> None:
    """A 200 of a captive portal is no delivery, and a 400 of a proxy no reason to set a day of batches aside."""
    with Receiver(lambda body: STRANGE[who]) as receiver:
        sending = sender(spool, receiver.url)
        assert sending.step(0) > 0
    assert (spool.waiting, spool.quarantined, sending.counts.delivered, sending.counts.streams_begun) == (3, 0, 0, 0)


def test_a_batch_from_the_future_waits_while_the_clocks_disagree(spool: Spool) -> None:
    """A collector that woke up in 1970 would otherwise make a whole fleet throw its readings away."""
    clock = FakeClock(time.time_ns() // 1000 + 2 * DAY)
    with Receiver(lambda body: refusal(422, "clock")) as receiver:
        sending = sender(spool, receiver.url, clock=clock)
        assert sending.step(0) > 0
        assert (spool.waiting, spool.quarantined) == (3, 0)
        clock.step(-2 * DAY)
        assert sending.step(0) == 0.0, "the clock was set since: what was sealed before will never be taken"
    assert (spool.waiting, spool.quarantined, sending.counts.refused) == (2, 1, 1)


def test_a_conflict_on_a_new_stream_is_a_mistake_that_waits(spool: Spool) -> None:
    """Otherwise each answer would have the whole spool written anew, without end."""
    with Receiver(lambda body: refusal(409, "conflict")) as receiver:
        sending = sender(spool, receiver.url)
        assert sending.step(0) == 0.0
        begun = spool.stream
        assert sending.step(0) > 0
        assert (spool.stream, sending.counts.streams_begun, spool.waiting) == (begun, 1, 3)
        receiver.answer = receiver.accept
        assert sending.step(0) == 0.0
        receiver.answer = lambda body: refusal(409, "conflict")
        assert sending.step(0) == 0.0, "once it was accepted, a conflict is one again"
    assert sending.counts.streams_begun == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_never_followed(spool: Spool, status: int) -> None:
    """Whoever can answer would get the token and the readings."""
    with Receiver() as elsewhere:
        with Receiver(lambda body: Reply(status, headers={"Location": f"{elsewhere.url}/v1/batches"})) as receiver:
            assert sender(spool, receiver.url, "secret").step(0) > 0
        assert elsewhere.bodies == []
    assert spool.waiting == 3


def test_a_token_never_goes_to_another_host_in_the_clear(spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    """A 421 without TLS may come from anybody on the way; where there is no token there is nothing to steal."""
    with Receiver() as owner, Receiver() as front:
        front.answer = lambda body: Reply(421, {"error": "not mine"}, {"Location": f"http://localhost:{owner.port}"})
        assert sender(spool, front.url, "secret").step(0) > 0
        assert (owner.bodies, owner.connections) == ([], 0)
        assert "on another host without TLS" in caplog.text
        assert sender(spool, front.url).step(0) == 0.0
        assert owner.authorizations == [None]


def test_no_proxy_of_the_environment_is_used(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that a shell or a unit inherited must not decide where the token goes."""
    with Receiver() as proxy, Receiver() as receiver:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert sender(spool, receiver.url, "secret").step(0) == 0.0
        assert (proxy.connections, len(receiver.bodies)) == (0, 1)


def test_a_connection_that_was_closed_while_idle_is_no_failure(spool: Spool) -> None:
    """A collector closes what is idle; that is no trouble to be logged, and no reason to wait."""
    with Receiver() as receiver:
        sending = sender(spool, receiver.url)
        assert sending.step(0) == 0.0
        receiver.hang_up()
        assert sending.step(0) == 0.0
        assert [identity(body)[1] for body in receiver.bodies] == [0, 1]
    assert sending.counts.failures == 0


def test_each_kind_of_trouble_is_logged_once(spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    """A collector that came back and now refuses the token is another trouble than one that is away."""
    replies = iter([Reply(503), Reply(503), Reply(401), Reply(401)])
    with Receiver() as receiver:
        receiver.answer = lambda body: next(replies, None) or receiver.accept(body)
        sending = sender(spool, receiver.url)
        for _ in range(5):
            sending.step(0)
    # The number after "answered": a port may hold the same digits.
    told = [record.message.partition(" answered ")[2][:3] for record in caplog.records if record.levelname == "WARNING"]
    assert told == ["503", "401"]


def test_the_last_batches_are_sent_when_the_agent_ends(spool: Spool) -> None:
    """What the last seconds said lies in the spool when the sender is told to stop; the next start may be far."""
    with Receiver() as receiver:
        sending = sender(spool, receiver.url)
        sending._stop.set()
        sending.start()
        sending.stop(PATIENCE_SECONDS)
        assert len(receiver.bodies) == 3 <= LAST_BATCHES


def test_an_answer_after_the_end_changes_nothing(spool: Spool, tmp_path: Path) -> None:
    """The next agent may hold the directory already, when a slow collector answers the last one."""
    found = spool.oldest(0)
    assert found is not None
    spool.close()
    again = open_spool(tmp_path / "spool", 10**7, 10**7, sync=False)
    OPENED.append(again)
    spool.acknowledge(found[0], found[0])
    spool.refuse(found[0], "no")
    spool.begin_stream()
    assert not spool.append(maker())
    assert spool.oldest(0) is None
    assert (again.stream, len(list((tmp_path / "spool" / again.stream).iterdir()))) == (spool.stream, 3)


def test_trouble_of_the_process_sets_no_batch_aside(tmp_path: Path) -> None:
    """Out of file descriptors for a moment: the whole spool would go into quarantine, which keeps a hundred files."""

    class NoHandles(SegmentStore):
        tries = 2

        def read(self, sequence: int) -> bytes:
            self.tries -= 1
            if self.tries >= 0:
                raise OSError(errno.EMFILE, "Too many open files")
            return super().read(sequence)

    queue = three(Spool(NoHandles(tmp_path / "spool"), 10**7, 10**7))
    with Receiver() as receiver:
        sending = sender(queue, receiver.url)
        assert [sending.step(0) > 0 for _ in range(3)] == [True, True, False]
    assert (queue.quarantined, queue.dropped, queue.waiting) == (0, 0, 2)


class Stepping(FakeClock):
    """A clock whose wall is set while a request is on its way."""

    def monotonic(self) -> int:
        """Step, at every look."""
        self.step(3600 * SECOND_US)
        return super().monotonic()


def test_a_clock_that_was_set_during_a_request_measures_no_offset(spool: Spool) -> None:
    """An hour of NTP's would otherwise be reported as the offset of the host."""
    with Receiver() as receiver:
        sending = sender(spool, receiver.url, clock=Stepping())
        assert sending.step(0) == 0.0
    assert sending.counts.clock_offset_seconds is None


@pytest.mark.parametrize("url", ["http://host:99999", "http://host:port", "http://[::1", "https://"])
def test_more_that_is_no_address_is_named(url: str) -> None:
    """Found at the start, in one sentence, and never as a traceback."""
    with pytest.raises(ConfigError, match="write it as http://host:8470"):
        Link(url)


@pytest.mark.parametrize("token", ["two\nlines", "\u00fcmlaut", "nul\0"])
def test_a_token_that_no_header_can_carry_is_found_at_the_start(token: str) -> None:
    """A file that ends in a new line is the usual case; and it is never shown."""
    with pytest.raises(ConfigError, match="token") as raised:
        Link("http://host", token)
    assert token not in str(raised.value)


@given(st.floats(0, 10**6), st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20))
def test_what_a_collector_asks_for_is_kept_and_spread(asked: float, fractions: list[float]) -> None:
    """A full collector asks a thousand agents for the same two seconds: they must not all come back together."""
    draws = iter(fractions)
    backoff = Backoff(lambda: next(draws))
    for _ in fractions:
        wait = backoff.seconds(asked)
        bounded = min(asked, LONGEST_ASKED_SECONDS)
        assert bounded <= wait <= max(2 * bounded, 300.0)
    spread = {Backoff(lambda at=at: at / 10).seconds(17.0) for at in range(10)}  # type: ignore[misc]
    assert len(spread) == 10


@given(st.one_of(st.none(), st.text(), st.from_regex(r"[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{1,6} \d+:\d+:\d+ \S+")))
def test_no_header_breaks_the_sender(header: str | None) -> None:
    """Proxies put anything there."""
    seconds = retry_after(header)
    assert seconds is None or seconds >= 0
    http_date(header)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_no_json_breaks_an_answer(value: Any) -> None:
    """What is said where a number was expected is not said."""
    from agent.delivery.link import _number

    number = _number(value)
    assert number is None or (type(value) is int and number == value)


def test_a_port_that_speaks_something_else_is_a_failure_that_passes(spool: Spool) -> None:
    """An SSH server on the collector's port: its greeting is no HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sending = sender(spool, f"http://127.0.0.1:{server.getsockname()[1]}")
        kept = sending._link._connection
        kept._open = kept._opened()
        kept._open.connect()
        connection, _ = server.accept()
        connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        connection.close()
        server.close()
        assert sending.step(0) > 0
    assert spool.waiting == 3
