"""The page: self-contained, without scripts, its columns add up, no name can break it, and its words are signed."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.capacity.profile.first_page import DecisionView, ShownGate, ShownOption
from analyzer.capacity.profile.page import page, tables, view
from analyzer.capacity.profile.signature import Envelope, TrustedKey, public_text, read_profile, signed
from tests.analyzer.capacity.profile_example import EXAMPLE
from tests.analyzer.charts.without_scripts import without_scripts

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
ALPHA = TrustedKey("alpha", public_text(KEY.public_key()), "collector")
PAGE = page(signed(EXAMPLE, KEY), key=KEY)
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&<b>{{ 7*7 }}\x1b[31m"
DECIDED = DecisionView(
    "q-5h2c",
    ("team-nlp asks for 32 more H100-80GB", "43,008 GPU-hours = $111,820.80", "Why: three runs at a time"),
    "FAIL, 3 of 11",
    "With the loader fixed, 16 more do what 32 were asked for.",
    (ShownOption("B fix first, then 16", "+16", "0", "$55,910.40", "likely", "8 more later", advised=True),),
    (ShownGate("useful", "48.9%", "50% or more", "FAIL"),),
    "8 weeks",
    fix="The fix: one setting, 46 hours to prove.",
)


def hostile(profile: CapacityProfile) -> CapacityProfile:
    """Return a profile whose every name is an attack."""
    return replace(
        profile,
        team=HOSTILE,
        project=HOSTILE,
        made=replace(profile.made, site=HOSTILE, prices_version=HOSTILE),
        runs=tuple(replace(run, name=HOSTILE, stage=HOSTILE, sku=HOSTILE, run_id=HOSTILE) for run in profile.runs),
        advice=tuple(replace(one, title=HOSTILE, paste=HOSTILE, run_names=(HOSTILE,)) for one in profile.advice),
        memory=tuple(replace(one, sku=HOSTILE) for one in profile.memory),
        alternatives=tuple(replace(one, sku=HOSTILE, why=HOSTILE) for one in profile.alternatives),
        unit_costs=tuple(replace(one, unit=HOSTILE, run_id=HOSTILE) for one in profile.unit_costs),
        caveats=(HOSTILE,),
        chosen=HOSTILE,
    )


def test_the_page_is_as_it_was_looked_at(golden: Callable[[str, str], None]) -> None:
    """A director reads page one: a change of it is read as a diff first."""
    golden("capacity_profile.html", without_scripts(page(Envelope(EXAMPLE, None))))


def test_a_ticket_takes_it_and_nothing_is_loaded() -> None:
    """A file of 2 MB, without an address, and without a script that runs but those of its charts."""
    assert len(PAGE.encode()) <= 2_000_000
    own = without_scripts(PAGE)
    assert own != PAGE
    assert re.findall(r"<script(?! type=\"application/json\")", own) == []
    assert re.findall(r"(?:src|href)=|https?://|@import|url\((?!#)", own) == []


def test_no_name_breaks_the_page() -> None:
    """Names come from whoever starts a job."""
    made = page(signed(hostile(EXAMPLE), KEY), key=KEY)
    own = without_scripts(made)
    assert "<img" not in own
    assert "<b>" not in own
    assert "\x1b" not in own
    assert own.count("</script>") == without_scripts(PAGE).count("</script>") == 1 + 3, "the profile, and each figure"
    read = read_profile(made.encode(), [ALPHA])
    assert (read.state, read.page, read.profile.team) == ("trusted", "signed", HOSTILE)


def test_a_page_is_read_like_its_json() -> None:
    """Who has only the page can hand it to the gate."""
    read = read_profile(PAGE.encode(), [ALPHA])
    assert (read.state, read.page, read.profile) == ("trusted", "signed", EXAMPLE)


@pytest.mark.parametrize(
    ("old", "new", "state", "around"),
    [
        ("48.9", "58.9", "trusted", "edited"),
        ("signed by key", "signed by Key", "trusted", "edited"),
        ('"milliseconds":', '"milliseconds": ', "edited", "edited"),
        ('"gpus":16', '"gpus":61', "edited", "edited"),
        ("</main>", "<p>approved</p></main>", "trusted", "edited"),
    ],
)
def test_an_edited_page_is_found(old: str, new: str, state: str, around: str) -> None:
    """The words that a director reads are signed as well as the figures that the gate reads."""
    assert old in PAGE
    read = read_profile(PAGE.replace(old, new, 1).encode(), [ALPHA])
    assert (read.state, read.page) == (state, around)


def test_a_page_without_its_own_signature_says_so() -> None:
    """Who leaves the mark away could otherwise write what he likes around honest figures."""
    stripped = re.sub(r'<meta name="gpuledger-page-signature"[^>]*>', "", PAGE)
    assert read_profile(stripped.encode(), [ALPHA]).page == "unsigned"


def test_columns_add_up_to_page_ones_figures() -> None:
    """Rounded from the top down: a director adds them up."""
    wanted = {"Representative runs", "Where it went, by cause"}
    checked = [table for table in tables(EXAMPLE) if table.title in wanted]
    assert {table.title for table in checked} == wanted
    for table in checked:
        assert table.total is not None
        for column in (-2, -1):
            units = [round(float(row[column].replace(",", "")) * 100) for row in table.rows]
            assert sum(units) == round(float(table.total[column].replace(",", "")) * 100), table.title


def test_page_one_begins_with_what_was_measured_or_decided() -> None:
    """Without a request there is no verdict; with one it comes before all figures."""
    assert "Verdict" not in PAGE
    assert "48.9% of this GPU time was useful" in PAGE
    made = page(signed(EXAMPLE, KEY), DECIDED, KEY)
    assert made.index("FAIL, 3 of 11") < made.index("$55,910.40") < made.index("Where it went")
    assert read_profile(made.encode(), [ALPHA]).page == "signed"


def test_what_is_unknown_is_not_shown_as_nothing() -> None:
    """A profile of an old host has no signals, no prices and no fleet: its page has neither, and no zero for them."""
    bare = replace(
        EXAMPLE,
        micros=None,
        booked=tuple(replace(each, micros=None) for each in EXAMPLE.booked),
        runs=tuple(replace(each, micros=None) for each in EXAMPLE.runs),
        distributions=(), memory=(), scaling=(), data_path=None, communication=None, alternatives=(), advice=(),
        checked=(), holdings=(), free=(), unit_costs=(), energy=None, at_zero_ratio=None,
    )  # fmt: skip
    shown = view(Envelope(bare, None))
    assert "$" not in str(shown["held"])
    assert [label for label, _ in shown["evidence"]] == ["runs", "accuracy"]  # type: ignore[attr-defined]
    assert page(Envelope(bare, None))


def test_a_page_is_written_and_verified_as_files(tmp_path: Path) -> None:
    """As people do it: a file that somebody attached, and a list of keys."""
    file = tmp_path / "profile.html"
    file.write_text(PAGE, encoding="utf-8")
    assert read_profile(file, [ALPHA]).valid
