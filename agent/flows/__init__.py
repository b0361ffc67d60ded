"""TCP flows by run and peer, read unprivileged from the kernel's own socket tables."""

from agent.flows.peers import Peers
from agent.flows.source import FlowSource

__all__ = ["FlowSource", "Peers"]
