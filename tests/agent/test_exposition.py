"""A scrape is answered in the format that is asked for, with the same samples in each."""

import http.client

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from agent.config import DcgmNames
from agent.exposition import OPENMETRICS_TYPE, exposition, takes_openmetrics
from agent.metrics.families import Scraped, registry
from agent.metrics.scrape_server import ScrapeServer
from tests.agent.situations import SITUATIONS, lived
from tests.waiting import PATIENCE_SECONDS

# As Prometheus 2.55 asks, and 3.0.
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;"
    "q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "takes"),
    [
        (PROMETHEUS, True),
        (PROMETHEUS_3, True),
        ("application/openmetrics-text", True),
        ("Application/OpenMetrics-Text; Version=1.0.0", True),
        ("text/plain;version=0.0.4;q=0.5, application/openmetrics-text;q=0.9", True),
        ("text/plain, application/openmetrics-text;q=0.9", False),
        ("application/openmetrics-text;version=2.0.0", False),
        ("application/openmetrics-text;version=0.0.1", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=nan", False),
        ("application/openmetrics-text;q=9", False),
        ("text/plain", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_the_format_is_agreed_on(accept: str, takes: bool) -> None:
    """Who cannot read a format must not be sent it; curl gets text."""
    assert takes_openmetrics(accept) is takes


@given(st.text(alphabet="aplicton/enmrs-x;,=q.019 \t*", max_size=200))
def test_whatever_is_accepted_has_an_answer(accept: str) -> None:
    """A header of a client must not cost the scrape."""
    assert isinstance(takes_openmetrics(accept), bool)


@pytest.mark.parametrize("dcgm", ["legacy", "both"])
@pytest.mark.parametrize("name", SITUATIONS)
def test_both_formats_say_the_same(name: str, dcgm: DcgmNames) -> None:
    """A strict reader of OpenMetrics finds each sample that text has, with its value, and the page's end."""
    families = registry(lived(SITUATIONS[name]()), Scraped(dcgm=dcgm, version="1.2.3"))
    text, _ = exposition(families)
    page, kind = exposition(families, PROMETHEUS)
    assert kind == OPENMETRICS_TYPE
    assert page.endswith(b"\n# EOF\n")
    read = [family.samples for family in openmetrics_families(page.decode())]  # type: ignore[no-untyped-call]
    assert read == [family.samples for family in text_string_to_metric_families(text.decode())]


def test_the_agents_port_answers_in_openmetrics() -> None:
    """As Prometheus asks, over its real port."""
    name = next(iter(SITUATIONS))
    server = ScrapeServer("127.0.0.1", 0, registry(lived(SITUATIONS[name]()), Scraped(version="1.2.3")))
    server.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", "/metrics", headers={"Accept": PROMETHEUS})
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == OPENMETRICS_TYPE
        assert answer.headers["Vary"] == "Accept, Accept-Encoding"
        assert list(openmetrics_families(answer.read().decode()))  # type: ignore[no-untyped-call]
    finally:
        connection.close()
        server.stop()
