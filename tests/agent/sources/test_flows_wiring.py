from pathlib import Path

import pytest

from agent.config import AgentConfig
from agent.errors import ConfigError
from agent.sampling.wiring import open_host_sources
from agent.sources.flows import FlowSource


@pytest.mark.parametrize(("flows", "own_run", "seen"), [(True, None, 1), (False, None, 0), (True, "declared/n1/x", 0)])
def test_flows_are_read_by_the_daemon_unless_told_otherwise(flows: bool, own_run: str | None, seen: int) -> None:
    """A command under `gpuledger run` shares its cgroup with the shell: its connections cannot be told from others."""
    host_sources = open_host_sources(AgentConfig(node="n1", flows=flows), lambda: 0, own_run=own_run)
    try:
        assert sum(isinstance(source, FlowSource) for source in host_sources.sources) == seen
    finally:
        host_sources.close()


def test_a_wrong_table_of_peers_ends_the_start(tmp_path: Path) -> None:
    """As every other path of the settings."""
    with pytest.raises(ConfigError, match=r"none\.csv"):
        open_host_sources(AgentConfig(node="n1", peers_table=tmp_path / "none.csv"), lambda: 0)
