"""What has ended is told in the past tense, and from the minute on in which it began."""

import pytest

from analyzer.findings.ledger_findings import findings
from analyzer.interfaces.text.finding_text import heading
from analyzer.text.layout import TextLayout
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, SECOND, Fleet

START = MONDAY + 100 * MINUTE  # 01:40
QUIET = START + 42 * MINUTE


def told(end: int | None, until: int = START + 2 * HOUR) -> tuple[str, str, int, int]:
    """Return the claim of a run that went quiet at 02:22, its heading, and from when to when."""
    fleet = Fleet()
    fleet.own("ws1", ["g1"])
    row = {"every": 10 * SECOND, "sm_active_ratio": None, "memory_used_bytes": 20 << 30}
    fleet.sample("ws1", "g1", START, QUIET, utilization_ratio=0.9, power_watts=300.0, **row)  # type: ignore[arg-type]
    fleet.sample("ws1", "g1", QUIET, until, utilization_ratio=0.0, power_watts=60.0, **row)  # type: ignore[arg-type]
    fleet.hold("declared/ws1/log", "ws1", ["g1"], START, end, scheduler="declared")
    fleet.analyze(now=until)
    with fleet.store.session() as session:
        (found,) = [one for one in findings(session, MONDAY, MONDAY + 5 * HOUR) if one.state == "held_idle"]
    return found.claim, " ".join(heading(found, "UTC", TextLayout(80, ascii=True))), found.first_at, found.last_at


def test_a_run_that_ended_quietly_held_its_gpus() -> None:
    """It holds nothing any more, and was at work until 02:22, not until the hour before; nothing was lost after it."""
    claim, head, first_at, last_at = told(START + 2 * HOUR)
    assert "went on holding GPUs after they had gone idle" in claim
    assert "from Mon 02:22" in head
    assert first_at == pytest.approx(QUIET, abs=MINUTE)
    assert last_at == START + 2 * HOUR


def test_a_run_that_goes_on_still_holds_them() -> None:
    """The present tense is of what somebody can end now."""
    claim, head, *_ = told(None, START + 3 * HOUR)
    assert "still holds GPUs that went idle" in claim
    assert "since Mon 02:22" in head
