"""A profile says what was measured, and who measured it: nothing in it can be changed unseen."""

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.capacity.profile.canonical_json import canonical, parsed, profile_of
from analyzer.capacity.profile.signature import Envelope, TrustedKey, public_text, read_document, read_profile, signed
from analyzer.errors import ProfileError
from tests.analyzer.capacity.profile_example import EXAMPLE

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
ALPHA = TrustedKey("alpha", public_text(KEY.public_key()), "collector")
TEXT = canonical(signed(EXAMPLE, KEY))


def test_what_is_written_is_read_again() -> None:
    """The gate judges what the collector measured, to the last digit."""
    assert profile_of(parsed(canonical(EXAMPLE))) == EXAMPLE


def test_a_signed_profile_is_trusted_by_who_lists_its_key() -> None:
    """The signature proves that nothing was changed; the list says whose word counts."""
    read = read_profile(TEXT.encode(), [ALPHA])
    assert (read.state, read.signed_by, read.profile) == ("trusted", "alpha", EXAMPLE)
    assert read_profile(f"{TEXT}\n".encode(), [ALPHA]).valid
    assert read_profile(TEXT.encode()).state == "unknown_key"
    stranger = Ed25519PrivateKey.from_private_bytes(b"s" * 32)
    assert read_profile(canonical(signed(EXAMPLE, stranger)).encode(), [ALPHA]).state == "unknown_key"


def test_a_profile_that_nobody_signed_says_so() -> None:
    """Anybody can write the figures; a gate must be able to tell this from an edit."""
    assert read_profile(canonical(Envelope(EXAMPLE, None)).encode(), [ALPHA]).state == "unsigned"


def test_a_key_of_runs_does_not_speak_for_a_collector() -> None:
    """Else whoever signs on his own host could say that the site has measured it."""
    mine = replace(ALPHA, name="a user", by="run")
    read = read_profile(TEXT.encode(), [mine])
    assert read.state == "unknown_key"
    assert "trusted as 'run'" in read.sentence


def state_of(text: str) -> str:
    """Return what reading a text comes to; "refused" where there is no profile in it."""
    try:
        return read_profile(text.encode("utf-8", "surrogatepass"), [ALPHA]).state
    except ProfileError:
        return "refused"


@given(st.integers(0, len(TEXT) - 1), st.sampled_from("0123456789aeE.-+ \t\n\"'{}[]:,/\\u<éß"))
@settings(max_examples=300, deadline=None)
def test_no_character_can_be_changed_unseen(place: int, character: str) -> None:
    """One digit of a price or one blank: whoever edits a profile must be seen to have done it."""
    if TEXT[place] != character:
        assert state_of(TEXT[:place] + character + TEXT[place + 1 :]) != "trusted"


@given(st.integers(0, len(TEXT)), st.sampled_from('0159eE.-+ \t\n"{}[]:,/\\'), st.booleans())
@settings(max_examples=300, deadline=None)
def test_no_character_can_be_added_or_left_out_unseen(place: int, character: str, adds: bool) -> None:
    """1.5 and 1.50 are the same number, but not the same file: there is one spelling, and no other is taken."""
    edited = TEXT[:place] + (character if adds else "") + TEXT[place if adds else place + 1 :]
    if edited not in (TEXT, f"{TEXT}\n"):
        assert state_of(edited) != "trusted"


def test_values_that_were_parsed_on_the_way_still_count() -> None:
    """A request's body is parsed before the gate sees it, and JavaScript writes 16.0 as 16."""
    document = parsed(TEXT)
    assert document["profile"]["holdings"][0]["for_this_gpus"] == 16.0
    document["profile"]["holdings"][0]["for_this_gpus"] = 16
    assert read_document(document, [ALPHA]).valid
    document["profile"]["holdings"][0]["idle_gpus"] = 0.0
    assert read_document(document, [ALPHA]).state == "edited"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 2_000_000, "nested too deeply"),
        (b'{"profile":' * 100_000, "nested too deeply"),
        (b" " * (4 * 2**20 + 1), "larger than 4 MiB"),
        (b"\xff\xfe", "UTF-8"),
        (b"", "not valid JSON"),
        (b"{}", "has no 'profile'"),
        (b"[]", "not an object"),
        (b'{"profile":{"schema":"gpuledger-profile-9"}}', "this version reads 'gpuledger-profile-1'"),
        (b'{"profile":{},"profile":{}}', "a key occurs twice"),
        (b'{"profile":NaN}', "not a valid number"),
        (b'{"profile":' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"profile":{},"signature":{"algorithm":"none"}}', "schema"),
        (b"<html></html>", "carries no profile"),
        (b'<script type="application/json" id="gpuledger-profile">{', "ends within its profile"),
        (TEXT.replace('"signature":"', '"signature":"AA', 1).replace('"gpus":16', '"gpus":"16"').encode(), "gpus is"),
        (TEXT.replace('"gpus":16', '"gpus":true', 1).encode(), "must be a whole number"),
        (TEXT.replace('"gpus":16', f'"gpus":{2**63}', 1).encode(), "must be a whole number"),
        (TEXT.replace('"measured_ratio":0.9985', '"measured_ratio":1e999').encode(), "must be a finite number"),
        (TEXT.replace('"currency":', '"curency":').encode(), "does not know"),
        (TEXT.replace('"by":"collector"', '"by":"god"').encode(), "must be one of"),
    ],
)
def test_a_hostile_file_is_refused_in_a_sentence(content: bytes, said: str) -> None:
    """The file comes from whoever wants GPUs: it may end in nothing worse than a sentence."""
    with pytest.raises(ProfileError, match=said):
        read_profile(content)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Who mistypes a path must not read about signatures."""
    with pytest.raises(ProfileError, match=r"cannot read .*absent\.json"):
        read_profile(tmp_path / "absent.json")
