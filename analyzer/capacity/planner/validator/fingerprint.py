"""Which problem a proposal is for: a short name that changes with any task, node or rate."""

import json
from dataclasses import asdict
from hashlib import sha256

from analyzer.capacity.planner.problem import Problem

_LETTERS = 16  # 64 bits: two problems of one fleet will not meet by chance
# Where a plan starts now, these move with every second. They are checked anew, and make no other problem.
_FROM_NOW = {"starts_at", "deadline_seconds", "earliest_start_seconds", "available_from_seconds", "start_seconds"}


def fingerprint(problem: Problem) -> str:
    """Return the first hexadecimal digits of the SHA-256 of all that the problem says but times from its start."""
    said = asdict(problem, dict_factory=lambda pairs: {key: value for key, value in pairs if key not in _FROM_NOW})
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:_LETTERS]
