"""What work is counted in: what services and runs say that they did."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of work: the column that counts it, and how many of them a price is told for."""

    column: str
    per: int
    words: str  # after "per": "1,000 requests"
    noun: str
    short: str  # the same in a narrow column


REQUESTS = Unit("requests", 1_000, "1,000 requests", "requests", "1k requests")
TOKENS_SERVED = Unit("tokens_out", 1_000_000, "million tokens served", "tokens served", "1M tokens served")
TOKENS = Unit("tokens", 1_000_000_000, "billion tokens", "tokens", "1bn tokens")
_SAMPLES = Unit("samples", 1_000_000, "million samples", "samples", "1M samples")
_STEPS = Unit("steps", 1_000, "1,000 steps", "steps", "1k steps")

# In the order in which they are preferred: a request of more tokens is more work, and so is a step of a larger batch;
# but what a service is asked for, and what a budget is made of, are requests and tokens.
UNITS = (REQUESTS, TOKENS_SERVED, TOKENS, _SAMPLES, _STEPS)
