"""The contract: every table and column that agents send, and how they travel."""

from agent.errors import EnvelopeError

# The other packages import agent.wire and nothing else of the agent, so the door carries the error that it raises.
__all__ = ["EnvelopeError"]
