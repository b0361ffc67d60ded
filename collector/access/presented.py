"""What a request shows: `Authorization: Bearer TOKEN`, or the password of `Basic`, whatever the user's name."""

import base64
import binascii
import hmac
from collections.abc import Sequence


def presented(authorization: bytes) -> bytes:
    """Return the token of an Authorization header; empty where it holds none."""
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def is_one_of(shown: bytes, tokens: Sequence[bytes]) -> bool:
    """Return whether this is one of the tokens; each is compared in constant time, and there is no early end."""
    return any([hmac.compare_digest(shown, token) for token in tokens])  # noqa: C419
