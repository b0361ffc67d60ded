"""What runs say themselves: steps, samples, tokens, requests, checkpoints; GPULEDGER_PROGRESS names the socket."""

from agent.sources.progress.own import OwnProgress
from agent.sources.progress.sender_run import HostRuns, one_run
from agent.sources.progress.source import VARIABLE, ProgressSource

__all__ = ["VARIABLE", "HostRuns", "OwnProgress", "ProgressSource", "one_run"]
