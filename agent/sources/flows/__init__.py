"""TCP flows by run and peer, read unprivileged from the kernel's own socket tables."""

from agent.sources.flows.peers import Peers
from agent.sources.flows.source import FlowSource

__all__ = ["FlowSource", "Peers"]
