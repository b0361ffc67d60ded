"""Sign a profile with Ed25519 (RFC 8032), and check a signature. The only module that asks `cryptography` to."""

import base64
import binascii
import hashlib
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from analyzer.capacity.profile.canonical_json import canonical
from analyzer.capacity.profile.facts import SCHEMA, CapacityProfile

ALGORITHM = "ed25519"
_PAGE = "gpuledger-page-1"  # what a page's signature begins with, so that it is never taken for a profile's
_KEY_ID_DIGITS = 16
PUBLIC_BYTES, _SIGNATURE_BYTES = 32, 64


@dataclass(frozen=True, slots=True)
class Signature:
    """What stands beside a signed profile; both texts are base64."""

    algorithm: str
    key_id: str
    public_key: str
    signature: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """A profile and its signature, None where nobody signed it: the content of a file."""

    profile: CapacityProfile
    signature: Signature | None


def signed(profile: CapacityProfile, key: Ed25519PrivateKey) -> Envelope:
    """Return a profile with the signature of a key."""
    public = public_text(key.public_key())
    made = base64.b64encode(key.sign(_message(profile))).decode()
    return Envelope(profile, Signature(ALGORITHM, key_id(public), public, made))


def holds(envelope: Envelope) -> bool:
    """Say whether the signature is that of this profile by the key that stands beside it; whose it is says a list."""
    said = envelope.signature
    if said is None or said.algorithm != ALGORITHM:
        return False
    public, made = exact_bytes(said.public_key, PUBLIC_BYTES), exact_bytes(said.signature, _SIGNATURE_BYTES)
    if public is None or made is None or said.key_id != key_id(said.public_key):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(made, _message(envelope.profile))
    except (InvalidSignature, ValueError):
        return False
    return True


def signed_text(text: str, key: Ed25519PrivateKey) -> str:
    """Return the signature of the words of a page, as base64."""
    return base64.b64encode(key.sign(_of_page(text))).decode()


def text_holds(text: str, signature: str, public_key: str) -> bool:
    """Say whether the words of a page are those that this key signed."""
    public, made = exact_bytes(public_key, PUBLIC_BYTES), exact_bytes(signature, _SIGNATURE_BYTES)
    if public is None or made is None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(made, _of_page(text))
    except (InvalidSignature, ValueError):
        return False
    return True


def public_text(key: Ed25519PublicKey) -> str:
    """Return a public key as base64."""
    return base64.b64encode(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


def key_id(public_key: str) -> str:
    """Return what people compare a key by: the first digits of the SHA-256 of its base64."""
    return hashlib.sha256(public_key.encode()).hexdigest()[:_KEY_ID_DIGITS]


def digest(profile: CapacityProfile) -> str:
    """Return the SHA-256 of a profile's one spelling, in hexadecimal."""
    return hashlib.sha256(canonical(profile).encode()).hexdigest()


def exact_bytes(text: str, length: int) -> bytes | None:
    """Return the bytes of a base64 text, or None where it is none of this length in its one spelling."""
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    # The last digit of base64 has bits that say nothing; a signature has one spelling too.
    return found if len(found) == length and base64.b64encode(found).decode() == text else None


def _of_page(text: str) -> bytes:
    return f"{_PAGE}\n{text}".encode()


def _message(profile: CapacityProfile) -> bytes:
    # Its schema first: a key that signs other things some day cannot be made to sign a profile by them.
    return f"{SCHEMA}\n{canonical(profile)}".encode()
