"""What requests of a service wait for, before and after a change: no serving recommendation goes without it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Latency:
    """Time to the first token (or answer) in seconds at P99, as measured before and as expected after; None: unknown.

    `slo_seconds` is what the service promises; `told` says what the expectation rests on.
    """

    before_seconds: float | None
    after_seconds: float | None
    slo_seconds: float | None
    told: str
