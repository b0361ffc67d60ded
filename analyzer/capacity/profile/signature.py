"""Sign a profile with Ed25519 (RFC 8032), check a signature, and say whose key is believed.

The only module that asks `cryptography` to. The key of a collector, or of a user of `gpuledger run`, is made once,
0600, and never sent.
"""

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from analyzer.capacity.profile.canonical_json import canonical
from analyzer.capacity.profile.facts import SCHEMA, CapacityProfile, MeasuredBy
from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import TomlEntry, read_toml
from analyzer.settings.toml_model import Mistakes, one_of, read_rows, toml_key

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
    if said is None or said.algorithm != ALGORITHM or said.key_id != key_id(said.public_key):
        return False
    return _is_of(_message(envelope.profile), said.signature, said.public_key)


def signed_text(text: str, key: Ed25519PrivateKey) -> str:
    """Return the signature of the words of a page, as base64."""
    return base64.b64encode(key.sign(_of_page(text))).decode()


def text_holds(text: str, signature: str, public_key: str) -> bool:
    """Say whether the words of a page are those that this key signed."""
    return _is_of(_of_page(text), signature, public_key)


def _is_of(message: bytes, signature: str, public_key: str) -> bool:
    public, made = exact_bytes(public_key, PUBLIC_BYTES), exact_bytes(signature, _SIGNATURE_BYTES)
    if public is None or made is None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(made, message)
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


_OWNER_ALONE = 0o600
_BESIDE = ".profile.key"  # after the store's own name
_KEY_BYTES = 4096
_STATE_FOLDER = "XDG_STATE_HOME"  # XDG Base Directory Specification; ~/.local/state where it is not set
_OWN_FOLDER, _OWN_KEY = "gpuledger", "profile.key"


def default_key_path(store: Path) -> Path:
    """Return where the key of a store's collector lies, unless the settings name another place."""
    return store.with_name(store.name + _BESIDE)


def of_user(environ: Mapping[str, str]) -> Path:
    """Return where the key of this user's own runs lies."""
    named = environ.get(_STATE_FOLDER, "")
    state = Path(named) if named.startswith("/") else Path.home() / ".local" / "state"
    return state / _OWN_FOLDER / _OWN_KEY


def key_at(path: Path) -> Ed25519PrivateKey:
    """Return the key of a file; where there is no file, make one.

    Raises:
        ConfigError: it cannot be read or made, others may read it, or it is no such key.
    """
    try:
        content = _content(path)
    except (FileNotFoundError, NotADirectoryError):
        return _made(path)
    except OSError as error:
        raise ConfigError(f"cannot read the key {path}: {error.strerror}") from error
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path} is not a key that can sign profiles; name another file") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path} is a key of another kind than Ed25519; name another file")
    return key


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & ~_OWNER_ALONE:
            raise ConfigError(f"others may read the key {path} (mode {mode:04o}): chmod 600 it, and make a new one")
        return file.read(_KEY_BYTES)


def _made(path: Path) -> Ed25519PrivateKey:
    """Make a key under another name and link it: a key that is there is whole, and two processes make one."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(part, pem)
        try:
            path.hardlink_to(part)
        except FileExistsError:  # another process was quicker
            return key_at(path)
        finally:
            part.unlink()
    except OSError as error:
        raise ConfigError(
            f"cannot make the key {path}: {error.strerror}; name a place for it: profile_key in the settings, or --key"
        ) from error
    return key


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ALONE), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _public_key(entry: TomlEntry, key: str) -> str:
    text = entry.text(key)
    if exact_bytes(text, PUBLIC_BYTES) is None:
        raise ConfigError(f"{entry.where}: {key!r} is not an Ed25519 key as gpuledger capacity profile key prints it")
    return text


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A key that is believed. A key of `run` cannot speak for a collector, whatever its file says."""

    name: str
    public_key: str = field(metadata=toml_key(read=_public_key))  # base64, as gpuledger capacity profile key prints it
    by: MeasuredBy = field(default="collector", metadata=toml_key(read=one_of(get_args(MeasuredBy))))

    @property
    def key_id(self) -> str:
        """What people compare it by."""
        return key_id(self.public_key)


def read_trusted(path: Path) -> tuple[TrustedKey, ...]:
    """Return the [[key]] entries of a TOML file.

    Raises:
        ConfigError: the file cannot be read, entries are wrong, or two are of one key.
    """
    return trusted_of(read_toml(path, ("key",)))


def trusted_of(content: TomlEntry) -> tuple[TrustedKey, ...]:
    """Return the [[key]] entries of a file or of a part of one: a policy may hold them. Raises as read_trusted()."""
    mistakes = Mistakes()
    keys = read_rows(content, "key", TrustedKey, mistakes)
    mistakes.refuse()
    if len({key.public_key for key in keys}) < len(keys):
        raise ConfigError(f"{content.where}: a key is listed twice; leave one of its entries")
    return keys
