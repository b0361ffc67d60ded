"""The span of an import: lengths count back from its end, days begin at midnight of a zone."""

import pytest

from collector.errors import ConfigError
from collector.importing.history import Span, span, zone
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY

UTC = zone("UTC")
NOW = MONDAY + 9 * HOUR + 17 * MINUTE


@pytest.mark.parametrize(
    ("since", "until", "wanted"),
    [
        ("4w", None, (NOW - 28 * DAY, NOW)),
        ("12h", "2025-11-10T06:00", (MONDAY - 6 * HOUR, MONDAY + 6 * HOUR)),
        ("2025-11-03", "2025-11-10", (MONDAY - 7 * DAY, MONDAY)),
        ("2025-11-10T00:00:00+01:00", "now", (MONDAY - HOUR, NOW)),
    ],
)
def test_words_name_a_span(since: str, until: str | None, wanted: tuple[int, int]) -> None:
    """As in every reading command."""
    found = span(since, until, NOW, UTC)
    assert (found.since, found.until) == wanted


def test_days_are_a_zone_s() -> None:
    """Midnight in Berlin is an hour before that of UTC."""
    assert span("2025-11-10", None, NOW, zone("Europe/Berlin")).since == MONDAY - HOUR


@pytest.mark.parametrize(
    ("hours", "label"), [(672, "4 weeks"), (168, "1 week"), (240, "10 days"), (2, "2 hours"), (61, "3 days")]
)
def test_a_span_has_a_name(hours: int, label: str) -> None:
    """The sentence begins with it."""
    assert Span(0, hours * HOUR).label == label


@pytest.mark.parametrize(
    ("since", "until"),
    [("yesterday", None), ("4w", "tomorrow"), ("2025-11-11", "2025-11-10"), ("1h", "2031-01-01"), ("0h", None)],
)
def test_what_names_no_span_is_refused(since: str, until: str | None) -> None:
    """Before anything is asked."""
    with pytest.raises(ConfigError):
        span(since, until, NOW, UTC)


def test_a_zone_that_nobody_knows_is_refused() -> None:
    """Times would be hours off."""
    with pytest.raises(ConfigError, match="Mars"):
        zone("Mars/Olympus")
