"""docs/detectors.md cannot lie: it is made of the rules, and of what was measured of them."""

import json
from pathlib import Path

from analyzer.ledger.thresholds import RULE_OF, Thresholds
from bench.detectors_document import numbers, page

ROOT = Path(__file__).parents[3]


def test_the_document_is_the_rules_and_the_bench() -> None:
    """Who tunes a number finds it there, with its source; `make docs` writes the page anew."""
    results = ROOT / "bench" / "results"
    truth, calibrated = (json.loads((results / name).read_text("utf-8")) for name in ("truth.json", "calibration.json"))
    text = (ROOT / "docs" / "detectors.md").read_text("utf-8")
    assert text == page(truth, calibrated), "make docs"
    for name in RULE_OF:
        state, _, cause = name.partition("/")
        assert state == "unexplained" or f"| `{cause}` |" in text
    assert "{" not in text.replace("{runs", "")


def test_every_number_has_its_value_and_a_reason() -> None:
    """A threshold without a source is somebody's taste."""
    told = {name: (value, why) for name, value, why in numbers()}
    assert {name: value for name, (value, _) in told.items()} == {
        name: getattr(Thresholds(), name) for name in Thresholds.__slots__
    }
    assert all(why for _, why in told.values())
    assert told["held_mb"] == (500, "a CUDA context alone is 300 to 500 MB")
