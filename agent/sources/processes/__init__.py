"""The processes behind each GPU, and the runs they belong to."""

from agent.sources.processes.source import ProcessSource

__all__ = ["ProcessSource"]
