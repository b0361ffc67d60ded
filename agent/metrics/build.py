"""Which version of the agent this is, and of which host, as one family."""

from prometheus_client import Metric

from agent.metrics.series import family, label


def build_family(version: str | None, node: str) -> Metric:
    """Return the family that names an agent's version, "unknown" in a checkout that is not installed, and its host."""
    series = [({"version": label(version or "unknown"), "node": label(node)}, 1.0)]
    return family("gpuledger_agent_build_info", "Which agent this is, and of which host. Always 1.", "gauge", series)
