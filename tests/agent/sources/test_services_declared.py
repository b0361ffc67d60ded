"""The setting `services`: what is meant is read, and what is not one is refused in one sentence."""

from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.sources.services import Service, declared_services


@pytest.mark.parametrize(
    ("entry", "service", "url"),
    [
        ("http://127.0.0.1:8000", Service("http", "127.0.0.1", 8000, "/metrics"), "http://127.0.0.1:8000/metrics"),
        ("http://localhost:8002/", Service("http", "localhost", 8002, "/metrics"), "http://localhost:8002/metrics"),
        ("http://n1/x/metrics", Service("http", "n1", 80, "/x/metrics"), "http://n1:80/x/metrics"),
        ("https://[::1]:8443", Service("https", "::1", 8443, "/metrics"), "https://[::1]:8443/metrics"),
        (
            "http://127.0.0.1:3000/metrics?a=b;slo=0.5",
            Service("http", "127.0.0.1", 3000, "/metrics?a=b", None, 0.5),
            "http://127.0.0.1:3000/metrics?a=b",
        ),
        (
            "chat bot=http://127.0.0.1:8000;slo=2",
            Service("http", "127.0.0.1", 8000, "/metrics", "declared/n1/chat-bot", 2.0),
            "http://127.0.0.1:8000/metrics",
        ),
        (
            "http://127.0.0.1:8000;role=prefill;model=a b;token_file=/etc/gpuledger/chat.token",
            Service(
                "http",
                "127.0.0.1",
                8000,
                "/metrics",
                role="prefill",
                model="a b",
                token_file=Path("/etc/gpuledger/chat.token"),
            ),
            "http://127.0.0.1:8000/metrics",
        ),
        (
            "slurm/alpha/81234=http://127.0.0.1:8000",
            Service("http", "127.0.0.1", 8000, "/metrics", "slurm/alpha/81234"),
            "http://127.0.0.1:8000/metrics",
        ),
    ],
)
def test_what_an_entry_means(entry: str, service: Service, url: str) -> None:
    """An address alone is enough; whose run it is and what it promises can be said."""
    assert declared_services([entry], "n1") == (service,)
    assert service.url == url


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "127.0.0.1:8000",
        "ftp://127.0.0.1",
        "http://",
        "http://ada:secret@127.0.0.1:8000",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:0",
        "http://127.0.0.1:8000/a b",
        "http://127.0.0.1:8000\r\nX-Header:1",
        "http://127.0.0.1:8000;slo=fast",
        "http://127.0.0.1:8000;slo=nan",
        "http://127.0.0.1:8000;slo=-1",
        "http://127.0.0.1:8000;p99=1",
        "http://127.0.0.1:8000;role=half",
        "http://127.0.0.1:8000;model=",
        "http://127.0.0.1:8000;token_file=chat.token",
        "http://127.0.0.1:8000;",
        "http://[::1",
    ],
)
def test_what_is_no_service(entry: str) -> None:
    """A slip is found at the start, by its own words, and not as an empty page next week."""
    with pytest.raises(ConfigError, match="expected the form http") as refused:
        declared_services([entry], "n1")
    assert repr(entry) in str(refused.value)


def test_services_are_bounded() -> None:
    """Each has a thread of its own."""
    with pytest.raises(ConfigError, match="maximum number per agent is 32"):
        declared_services([f"http://127.0.0.1:{port}" for port in range(8000, 8033)], "n1")


def test_an_address_counts_once() -> None:
    """Or once for each model behind it, whose runs may differ."""
    both = ["a=http://127.0.0.1:8000;model=a", "b=http://127.0.0.1:8000;model=b"]
    assert len(declared_services(both, "n1")) == 2
    with pytest.raises(ConfigError, match="counts once"):
        declared_services(["a=http://127.0.0.1:8000", "b=http://127.0.0.1:8000/metrics"], "n1")
