"""Read a profile of a file that somebody sends, and say whether its signature holds and whose it is.

A page that carries a profile is signed as a whole too, so that nobody can change its words around honest figures. The
file may come from anywhere: its length and depth are bounded, every field has its kind, and a text that is not
the one spelling of what it says counts as edited.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_type_hints

from analyzer.capacity.profile.canonical_json import FILE_BYTES, canonical, parsed, profile_of
from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.capacity.profile.signature import Envelope, Signature, TrustedKey, digest, holds, text_holds
from analyzer.errors import ProfileError

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
    return "signed" if text_holds(whole, made, said.public_key) else "edited"


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
