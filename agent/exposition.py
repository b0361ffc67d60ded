"""The page of a scrape, in the format that the scraper asks for: OpenMetrics, or Prometheus' text format 0.0.4.

Both ports, the agent's and the server's, answer by it. Sources: OpenMetrics 1.0, "Content type"; RFC 9110, 12.5.1.
"""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics import exposition as openmetrics

OPENMETRICS, _TEXT = "application/openmetrics-text", "text/plain"
OPENMETRICS_TYPE = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"
_VERSIONS = {
    OPENMETRICS: ("", "1.0.0"),
    _TEXT: ("", "0.0.4", "1.0.0"),
}  # that we write; 1.0.0 of text differs in escapes


def exposition(registry: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """Return the page of everything in a registry, and its content type, for what a request's Accept says."""
    if takes_openmetrics(accept):
        return openmetrics.generate_latest(registry), OPENMETRICS_TYPE  # type: ignore[no-untyped-call]
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4


def takes_openmetrics(accept: str) -> bool:
    """Say whether OpenMetrics 1.0.0 is wanted, and text no more than it; who names neither gets text."""
    weights = dict.fromkeys(_VERSIONS, 0.0)
    for wanted in accept.lower().split(","):
        kind, *words = [word.strip() for word in wanted.split(";")]
        parameters = dict(word.partition("=")[::2] for word in words)
        if parameters.get("version", "") in _VERSIONS.get(kind, ()):
            weights[kind] = max(weights[kind], _weight(parameters.get("q", "1")))
    return 0 < weights[OPENMETRICS] >= weights[_TEXT]


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0
