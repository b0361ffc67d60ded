"""Bodies on their way in hold so much and no more, and no host keeps the others out."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from collector.errors import BatchError
from collector.limits import Arriving, IncomingBody


def _body(place: IncomingBody, chunks: Iterable[bytes]) -> bytes:
    pieces = list(chunks)

    async def receive() -> dict[str, Any]:
        chunk = pieces.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(pieces)}

    return asyncio.run(place.body({}, receive))


def test_a_body_counts_until_its_batch_stands_in_the_queue() -> None:
    """Large bodies that wait to be unpacked were in nobody's account."""
    arriving = Arriving(body_bytes=1000, all_bytes=100, seconds=10)
    with arriving.place() as place:
        assert _body(place, [b"a" * 60, b"b" * 30]) == b"a" * 60 + b"b" * 30
        assert arriving.held == 90
        with arriving.place() as other, pytest.raises(BatchError) as refused:
            _body(other, [b"c" * 20])
        assert refused.value.reason == "busy"
    assert arriving.held == 0


def test_one_body_always_fits() -> None:
    """It would otherwise be refused for ever."""
    arriving = Arriving(body_bytes=1000, all_bytes=10, seconds=10)
    with arriving.place("n1") as place:
        assert len(_body(place, [b"x" * 900])) == 900


def test_one_host_takes_no_more_than_its_share() -> None:
    """A few slow bodies of one host must not fill what is for all."""
    arriving = Arriving(body_bytes=1000, all_bytes=400, seconds=10)
    with arriving.place("n1") as first, arriving.place("n1") as second, arriving.place("n2") as other:
        _body(first, [b"x" * 80])
        with pytest.raises(BatchError) as refused:
            _body(second, [b"x" * 80])
        assert (refused.value.status, refused.value.reason) == (429, "share")
        assert len(_body(other, [b"x" * 80])) == 80
    assert arriving.held == 0
    assert arriving._held_by == {}
