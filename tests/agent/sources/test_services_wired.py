"""The settings reach the sources: what runs and services say is read where it is to be, and nowhere else."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from agent.config import AgentConfig
from agent.errors import ConfigError
from agent.sampling.wiring import open_host_sources


def names(config: AgentConfig, own_run: str | None = None, *, lasting: bool = False) -> set[str]:
    """Return the names of the sources of a host with these settings."""
    with closing(open_host_sources(config, lambda: 0, tuple, own_run, lasting=lasting)) as host_sources:
        return {source.name for source in host_sources.sources}


@pytest.fixture
def config(tmp_path: Path) -> AgentConfig:
    """Return settings with a socket and a service."""
    return AgentConfig(
        progress=tmp_path / "progress.sock",
        state=tmp_path / "state.json",
        services=("http://127.0.0.1:9",),
        jobstats=None,
    )


def test_the_daemon_hears_runs_and_asks_services(config: AgentConfig) -> None:
    """Both are sources among others."""
    assert {"progress", "service"} <= names(config, lasting=True)


def test_a_single_reading_takes_nobodys_socket(config: AgentConfig) -> None:
    """`agent --once` beside the daemon must not take the runs' words from it."""
    assert "progress" not in names(config)
    assert "service" in names(config)


def test_a_watched_run_asks_no_service(config: AgentConfig) -> None:
    """`gpuledger run` is about its command; the host's services are the host's."""
    assert not {"progress", "service"} & names(config, "declared/n1/x")


def test_what_is_not_named_is_not_asked(config: AgentConfig) -> None:
    """The agent opens no connection that nobody asked for."""
    assert "service" not in names(replace(config, services=()), lasting=True)


def test_a_service_that_is_none_is_a_bad_setting(config: AgentConfig) -> None:
    """It is found where settings are read, so that a reload with it keeps the old ones."""
    with pytest.raises(ConfigError, match=r"agent\.services"):
        replace(config, services=("localhost:8000",))
