"""Sign a profile with Ed25519 (RFC 8032), read one that somebody sends, and say whether it holds and whose it is.

The only module that asks `cryptography` to. The key of a collector, or of a user of `gpuledger run`, is made once,
0600, and never sent. A page that carries a profile is signed as a whole too, so that nobody can change its words around
honest figures. A file may come from anywhere: its length and depth are bounded, every field has its kind, and a text
that is not the one spelling of what it says counts as edited.
"""

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args, get_type_hints

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from analyzer.capacity.profile.canonical_json import FILE_BYTES, canonical, parsed, profile_of
from analyzer.capacity.profile.facts import SCHEMA, CapacityProfile, MeasuredBy
from analyzer.errors import ConfigError, ProfileError
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


def _text_holds(text: str, signature: str, public_key: str) -> bool:
    """Say whether the words of a page are those that this key signed."""
    return _is_of(_of_page(text), signature, public_key)


def _is_of(message: bytes, signature: str, public_key: str) -> bool:
    public, made = _exact_bytes(public_key, PUBLIC_BYTES), _exact_bytes(signature, _SIGNATURE_BYTES)
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


def _exact_bytes(text: str, length: int) -> bytes | None:
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
    if _exact_bytes(text, PUBLIC_BYTES) is None:
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


State = Literal["trusted", "unknown_key", "edited", "unsigned"]
Page = Literal["none", "signed", "unsigned", "edited"]
EMBEDDED = '<script type="application/json" id="gpuledger-profile">'
EMBEDDED_END = "</script>"
PAGE_MARK, PAGE_MARK_END = '<meta name="gpuledger-page-signature" content="', '">'
_PARTS = ("profile", "signature")


@dataclass(frozen=True, slots=True)
class ReadProfile:
    """A profile as it was read, and what its signature is worth.

    `signed_by` is the name of the trusted key, None for every other state; `sentence` says the state to people.
    """

    profile: CapacityProfile
    state: State
    signed_by: str | None
    key_id: str | None
    sha256: str
    sentence: str
    page: Page = "none"  # whether the words of the page around it are signed by the same key; "none": it is no page

    @property
    def valid(self) -> bool:
        """Whether its figures were signed by a key that is trusted, and not changed since."""
        return self.state == "trusted"


def read_profile(source: Path | bytes, trusted: Sequence[TrustedKey] = ()) -> ReadProfile:
    """Return the profile of a JSON file or of an HTML page that carries one.

    Raises:
        ProfileError: the file cannot be read, or there is no profile in it; an edit that leaves one is a state.
    """
    text = _text(source)
    is_page, body = _body(text)
    envelope = _envelope(parsed(body))
    read = _judged(envelope, trusted, respelled=envelope.signature is not None and body != canonical(envelope))
    return replace(read, page=_page(text, envelope.signature)) if is_page else read


def read_envelope(source: Path | bytes) -> Envelope:
    """Return the profile of such a file with the signature beside it, whatever that is worth.

    Raises:
        ProfileError: as read_profile() does.
    """
    return _envelope(parsed(_body(_text(source))[1]))


def read_document(document: object, trusted: Sequence[TrustedKey] = ()) -> ReadProfile:
    """Return the profile of JSON that was parsed already, as in the body of a request; its values are checked.

    Raises:
        ProfileError: it is no profile.
    """
    return _judged(_envelope(document), trusted)


def _text(source: Path | bytes) -> str:
    if isinstance(source, Path):
        try:
            with source.open("rb") as file:
                content = file.read(FILE_BYTES + 1)
        except OSError as error:
            raise ProfileError(f"cannot read {source}: {error.strerror}") from error
    else:
        content = source
    if len(content) > FILE_BYTES:
        raise ProfileError(f"it is larger than {FILE_BYTES >> 20} MiB, the maximum for a profile")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProfileError("it is not a profile: neither JSON nor HTML in UTF-8") from error


def _body(text: str) -> tuple[bool, str]:
    """Return whether a text is a page, and the JSON of its profile."""
    is_page = text.lstrip()[:1] == "<"
    return is_page, _embedded(text) if is_page else text.removesuffix("\n")


def _embedded(page: str) -> str:
    if page.count(EMBEDDED) != 1:
        raise ProfileError(
            "the page carries no profile, or several; attach the file that gpuledger capacity profile wrote"
        )
    rest = page.split(EMBEDDED, 1)[1]
    body, end, _ = rest.partition(EMBEDDED_END)
    if not end:
        raise ProfileError("the page ends within its profile; attach the whole file")
    return body.strip("\n")


def _page(text: str, said: Signature | None) -> Page:
    """Return what the page's own signature is worth: by the key that signed the profile in it."""
    before, mark, rest = text.partition(PAGE_MARK)
    made, end, after = rest.partition(PAGE_MARK_END)
    if said is None or not made or not end:
        return "unsigned"
    whole = f"{before}{mark}{end}{after}"
    return "signed" if _text_holds(whole, made, said.public_key) else "edited"


def _envelope(document: object) -> Envelope:
    if not isinstance(document, dict):
        raise ProfileError("it is not a profile: not an object with 'profile' and 'signature'")
    if unknown := set(document) - set(_PARTS):
        raise ProfileError(f"it has {min(unknown)[:40]!r} beside 'profile' and 'signature', which no profile has")
    if "profile" not in document:
        raise ProfileError("it has no 'profile'; the JSON of a report or a run is not a profile")
    return Envelope(profile_of(document["profile"]), _signature(document.get("signature")))


def _signature(said: object) -> Signature | None:
    if said is None:
        return None
    known = get_type_hints(Signature)
    if (
        not isinstance(said, dict)
        or set(said) != set(known)
        or not all(isinstance(each, str) for each in said.values())
    ):
        raise ProfileError(f"its signature is not valid: it must have the texts {', '.join(known)}")
    return Signature(**said)


def _judged(envelope: Envelope, trusted: Sequence[TrustedKey], *, respelled: bool = False) -> ReadProfile:
    said, profile = envelope.signature, envelope.profile
    sha256 = digest(profile)
    if said is None:
        return ReadProfile(profile, "unsigned", None, None, sha256, "not signed: anybody may have written it")
    if respelled and holds(envelope):
        told = "edited: its values are as they were signed, its text is not; attach the file as gpuledger wrote it"
        return ReadProfile(profile, "edited", None, said.key_id, sha256, told)
    if not holds(envelope):
        told = f"edited: it is not what key {_spaced(said.key_id)} signed"
        return ReadProfile(profile, "edited", None, said.key_id, sha256, told)
    return _by_list(profile, said, sha256, trusted)


def _by_list(profile: CapacityProfile, said: Signature, sha256: str, trusted: Sequence[TrustedKey]) -> ReadProfile:
    key, by = _spaced(said.key_id), profile.made.by
    known = next((each for each in trusted if each.public_key == said.public_key), None)
    if known is None:
        told = f"unknown key {key}: unchanged since it was signed, by a key that is not on the list of trusted keys"
        return ReadProfile(profile, "unknown_key", None, said.key_id, sha256, told)
    if known.by != by:
        told = f"unknown key {key}: {known.name} is trusted as {known.by!r}, and the profile says it is by {by!r}"
        return ReadProfile(profile, "unknown_key", None, said.key_id, sha256, told)
    told = f"signed by {known.name} (key {key}), {'measured' if by == 'collector' else 'self-measured'}; unchanged"
    return ReadProfile(profile, "trusted", known.name, said.key_id, sha256, told)


def _spaced(identity: str) -> str:
    return " ".join(identity[place : place + 4] for place in range(0, min(len(identity), 16), 4))
