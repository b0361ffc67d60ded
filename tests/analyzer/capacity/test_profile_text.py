"""Page one as text: as it was drawn, with the figures of page and JSON, on 80 columns, whatever names there are."""

import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from analyzer.capacity.gate.supply import work_of
from analyzer.capacity.gate.text import shown_of
from analyzer.capacity.profile.first_page import DecisionView
from analyzer.capacity.profile.page import Ready, in_form
from analyzer.capacity.profile.signature import Envelope, signed
from analyzer.interfaces.cli.capacity_profile import profile
from analyzer.text.layout import TextLayout
from tests.analyzer.capacity.gate_asking import decided
from tests.analyzer.capacity.profile_example import EXAMPLE
from tests.analyzer.capacity.test_profile_page import DECIDED, hostile
from tests.analyzer.reports.example_recording import write_recording

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
ENVELOPE = signed(EXAMPLE, KEY)
SHOWN = shown_of(decided(), work_of(decided().request, EXAMPLE))


def text(envelope: Envelope = ENVELOPE, shown: DecisionView | None = None, layout: TextLayout | None = None) -> str:
    """Return page one, which fits on its paper."""
    layout = layout or TextLayout()
    made = in_form("text", envelope, shown, layout=layout)
    assert max(map(len, made.splitlines())) <= layout.width
    return made


def test_page_one_is_as_it_was_drawn(golden: Callable[[str, str], None]) -> None:
    """Screen 7, with what the gates say and before they were asked, and as a pipe gets it."""
    unsigned = Envelope(EXAMPLE, None)
    golden("capacity/profile_decided.txt", text(unsigned, SHOWN))
    golden("capacity/profile.txt", text(unsigned))
    golden("capacity/profile_ascii.txt", text(unsigned, SHOWN, TextLayout(ascii=True)))


@pytest.mark.parametrize("shown", [None, SHOWN, DECIDED])
def test_text_and_page_have_the_same_figures(shown: DecisionView | None) -> None:
    """A director who got the text and one who got the page speak of one number; neither has more."""
    page = in_form("html", ENVELOPE, shown)
    first = page.partition('<section class="first-page">')[2].partition("</section>")[0]
    words = re.sub(r"<script.*?</script>", "", first, flags=re.DOTALL)  # of the bar's lengths none is shown as a figure
    assert _figures(text(shown=shown)) == _figures(html.unescape(re.sub(r"<[^>]*>", " ", words)))


def _figures(said: str) -> set[str]:
    return {figure.rstrip(".,") for figure in re.findall(r"\d[\d,.]*", said)}


def test_its_sums_are_those_of_the_json() -> None:
    """The JSON is exact; the text rounds it from the top down, so that every column adds up to its total."""
    exact = json.loads(in_form("json", ENVELOPE))["profile"]
    lines = [line for line in text().splitlines() if re.search(r"\d\.\d$", line)]
    rows = [[line.split()[0].rstrip(":"), *line[-30:].split()] for line in lines]
    (total,) = (row for row in rows if row[0] == "total")
    assert total[1:] == [f"{exact['milliseconds'] / 3_600_000:,.1f}", f"{exact['micros'] / 10**6:,.2f}", "100.0"]
    classes = [row for row in rows if row[0] in {"useful", "avoidable", "overhead", "unknown"}]
    for place in (-3, -2, -1):
        cents = [round(float(row[place].replace(",", "")) * 100) for row in classes]
        assert sum(cents) == round(float(total[place].replace(",", "")) * 100)


@pytest.mark.parametrize("layout", [TextLayout(64, ascii=True), TextLayout(64), TextLayout(80), TextLayout(160)])
def test_no_name_breaks_the_text(layout: TextLayout) -> None:
    """Names come from whoever starts a job; a terminal obeys control characters."""
    made = text(signed(hostile(EXAMPLE), KEY), SHOWN, layout)
    assert "\x1b" not in made
    assert made.isascii() or not layout.ascii


def test_what_is_unknown_is_not_a_zero() -> None:
    """Without prices there is no dollar, and without any hour no table."""
    bare = replace(EXAMPLE, micros=None, booked=(), runs=(), milliseconds=0, unit_costs=(), caveats=())
    made = text(Envelope(bare, None))
    assert "$" not in made
    assert "productive" not in made
    assert "CAVEATS" not in made


def test_it_is_printed_or_written_as_every_reading_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--format text` prints and writes nothing; `.txt` is a file, with the JSON that a gate reads beside it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    asked = ["--recording", str(write_recording(tmp_path / "run.json", 45, waiting=True)), "--price", "2.60"]
    assert profile([*asked, "--format", "text"]) == 0
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert "self-measured" in printed
    assert not list(tmp_path.glob("profile.*"))
    assert profile([*asked, "--out", "profile.txt"]) == 0
    assert "wrote profile.txt and profile.json" in capsys.readouterr().out
    assert _figures((tmp_path / "profile.txt").read_text("utf-8").partition("EVIDENCE")[0]) == _figures(
        printed.partition("EVIDENCE")[0]
    )
    assert profile([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["signature"]["algorithm"] == "ed25519"


def test_what_a_server_sent_stays_as_it_came() -> None:
    """A signature holds for one spelling alone; only the text is made here, for it carries none."""
    ready = Ready(ENVELOPE, sent={"json": "as it came", "html": "<p>as it came"})
    assert (ready.form("json"), ready.form("html")) == ("as it came", "<p>as it came")
    assert ready.form("text") == text()
