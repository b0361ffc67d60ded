"""Browsers that are logged in: how many, for how long, and what shows that a change came from our page."""

import asyncio
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.access.access import AT_ONCE, EACH_SECONDS, Attempts
from collector.access.gate import FORM, FORM_BYTES, body_of, fields_of, own_change
from collector.access.secret import (
    COOKIE,
    IDLE_SECONDS,
    LASTING_SECONDS,
    MOST_OF_A_KEY,
    SECURE_COOKIE,
    Sessions,
    cookie_of,
)
from collector.errors import AccessError


class Clock:
    """A clock that these tests move."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        """Return its time."""
        return self.seconds


def test_a_session_ends_when_nobody_uses_it_and_lasts_a_week_at_most() -> None:
    """A browser that is left open somewhere must not stay logged in for ever."""
    clock = Clock()
    sessions = Sessions(clock)
    left, used = sessions.begin("k1"), sessions.begin("k2")
    clock.seconds += IDLE_SECONDS
    assert sessions.of(used) is not None
    clock.seconds += 1
    assert sessions.of(left) is None
    assert sessions.of(used) is not None
    while clock.seconds + IDLE_SECONDS < 1000 + LASTING_SECONDS:
        clock.seconds += IDLE_SECONDS
        assert sessions.of(used) is not None
    clock.seconds += IDLE_SECONDS
    assert sessions.of(used) is None
    assert len(sessions) == 0


def test_sessions_are_bounded_and_one_key_cannot_push_out_another() -> None:
    """Whoever has a key may log in a million times; the memory and the others must not notice."""
    sessions = Sessions(most=MOST_OF_A_KEY + 10)
    other = sessions.begin("other")
    own = [sessions.begin("k1") for _ in range(MOST_OF_A_KEY + 30)]
    assert sessions.of(other) is not None
    assert [cookie for cookie in own if sessions.of(cookie)] == own[30:]
    for number in range(100):
        sessions.begin(f"key {number}")
    assert len(sessions) == MOST_OF_A_KEY + 10


def test_what_is_kept_of_a_cookie_opens_nothing() -> None:
    """Who reads the server's memory from a dump finds hashes."""
    sessions = Sessions()
    cookie = sessions.begin("k1")
    assert cookie not in repr(sessions._open)
    sessions.end(cookie)
    assert sessions.of(cookie) is None


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (b"", ""),
        (f"{COOKIE}=a".encode(), "a"),
        (f"x=1; {COOKIE}=a; y=2".encode(), "a"),
        (f"{COOKIE}=a; {COOKIE}=b".encode(), "a"),
        (f"{COOKIE}=a; {SECURE_COOKIE}=b".encode(), "b"),
        (f"not{COOKIE}=a".encode(), ""),
        (b"\xff\xfe;;;===", ""),
    ],
)
def test_a_cookie_is_found_whatever_stands_beside_it(header: bytes, found: str) -> None:
    """The name that only TLS can set goes first: a plain page of the same host cannot put another in its place."""
    assert cookie_of(header) == found


def test_attempts_are_bounded_by_address_and_come_back() -> None:
    """A loop is slowed down; who mistyped twice notices nothing."""
    clock = Clock()
    attempts = Attempts(clock, most=2)
    for _ in range(AT_ONCE):
        assert attempts.wait_seconds("a") == 0.0
        attempts.failed("a")
    assert attempts.wait_seconds("a") == pytest.approx(EACH_SECONDS)
    assert attempts.wait_seconds("b") == 0.0
    clock.seconds += EACH_SECONDS
    assert attempts.wait_seconds("a") == 0.0
    for address in "xyz":
        attempts.failed(address)
    assert len(attempts._spent_until) == 2


def receiving(*parts: bytes) -> Any:
    """Return a body in parts, as a server hands it over."""
    messages = [
        {"type": "http.request", "body": part, "more_body": place + 1 < len(parts)} for place, part in enumerate(parts)
    ]

    async def receive() -> dict[str, object]:
        return messages.pop(0)

    return receive


def change(body: bytes, token: str, **headers: str) -> bytes:
    """Return the body that a route reads of a change which the gate let pass."""
    told = {b"content-type": FORM.encode()} | {
        name.replace("_", "-").encode(): value.encode() for name, value in headers.items()
    }

    async def pass_on() -> bytes:
        again = await own_change({"type": "http", "method": "POST"}, receiving(body[:3], body[3:]), told, token)
        return await body_of(again)

    return asyncio.run(pass_on())


@given(st.dictionaries(st.text(max_size=10), st.text(max_size=30), max_size=5))
def test_a_route_reads_the_form_that_the_gate_has_read(fields: dict[str, str]) -> None:
    """The token is looked for in the body: the route must get that body as it came."""
    body = urlencode({**fields, "csrf": "right"}).encode()
    assert change(body, "right") == body
    assert fields_of(body) == {**fields, "csrf": "right"}


@pytest.mark.parametrize("body", [b"", b"csrf=", b"csrf=wrong", b"csrf=righ", b"csrf=right2", b"other=right"])
def test_a_change_without_the_token_of_its_session_is_refused(body: bytes) -> None:
    """A page of another site can make a browser send a form with the cookie; it cannot know the token."""
    with pytest.raises(AccessError) as refused:
        change(body, "right")
    assert (refused.value.status, refused.value.reason) == (403, "csrf")


def test_a_header_may_carry_the_token_of_what_is_no_form() -> None:
    """A script of ours sends JSON."""
    assert change(b'{"a": 1}', "right", content_type="application/json", x_csrf_token="right") == b'{"a": 1}'
    with pytest.raises(AccessError):
        change(b"csrf=right", "right", content_type="text/plain")


def test_a_form_is_small_and_a_form() -> None:
    """What is no form, or larger than any of ours, is refused before it fills the memory."""
    with pytest.raises(AccessError) as large:
        change(b"a" * (FORM_BYTES + 1), "right")
    assert large.value.status == 413
    with pytest.raises(AccessError) as many:
        fields_of(b"&".join(b"a=1" for _ in range(200)))
    assert many.value.status == 400


def test_over_tls_the_cookie_that_only_tls_can_set_is_read_alone() -> None:
    """Whoever answers for a sister domain, or without TLS, can set the other and so log somebody in as themselves."""
    assert cookie_of(f"{COOKIE}=a".encode(), SECURE_COOKIE) == ""
    assert cookie_of(f"{COOKIE}=a; {SECURE_COOKIE}=b".encode(), SECURE_COOKIE) == "b"
