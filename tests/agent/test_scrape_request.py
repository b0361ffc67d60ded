"""Whatever a client sends is a request or is refused; nothing else can happen."""

import base64
import contextlib
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.metrics.door import Secret
from agent.metrics.scrape_server import MOST_HEADERS, HttpAnswer, RefusedError, Request, parse

NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=":"), min_size=1, max_size=20)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=50)


@given(st.binary(max_size=3000))
def test_any_bytes_are_a_request_or_refused(head: bytes) -> None:
    """A port is found by who scans for it."""
    with contextlib.suppress(RefusedError):
        request = parse(head)
        assert request.method.isalpha()
        assert isinstance(request.takes_gzip, bool)


@given(st.dictionaries(NAMES, VALUES, max_size=MOST_HEADERS))
def test_headers_are_read_as_they_are_written(headers: dict[str, str]) -> None:
    """Their names in any case, their values without the blanks around them."""
    lines = "\r\n".join(["GET /metrics?x=1 HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())])
    request = parse(lines.encode("latin-1"))
    assert (request.method, request.path) == ("GET", "/metrics")
    assert request.headers == {name.lower(): value.strip() for name, value in headers.items()}


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=1.0", True),
        ("gzip; q=0", False),
        ("gzip;q=0.000", False),
        ("gzip;q=0.001", True),
        ("br, *", True),
        ("identity", False),
    ],
)
def test_compression_is_agreed_on(accepted: str, takes: bool) -> None:
    """A client that cannot unpack must not be sent what is packed."""
    assert Request("GET", "/", {"accept-encoding": accepted}).takes_gzip is takes


@given(st.text(max_size=200))
def test_no_other_secret_opens(authorization: str) -> None:
    """Nor does any text at all make it stumble."""
    secret = Secret("a token that nobody guesses", "mira", "a password that nobody guesses")
    assert not secret.admits(authorization)
    assert not secret.admits(f"Basic {authorization}")


@given(st.text(min_size=1), st.text(st.characters(exclude_characters=":"), min_size=1), st.text())
def test_the_secret_opens_whatever_it_is_made_of(token: str, user: str, password: str) -> None:
    """Passwords have colons, and users umlauts."""
    try:
        brought = base64.b64encode(f"{user}:{password}".encode()).decode()
    except UnicodeEncodeError:
        return
    assert Secret(user=user, password=password).admits(f"Basic {brought}")
    assert not Secret(token=token).admits(f"Basic {brought}")


def test_a_short_answer_is_not_compressed() -> None:
    """It would only grow."""
    answer = HttpAnswer(HTTPStatus.OK, b"short")
    assert answer.compressed() is answer
