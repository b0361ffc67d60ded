"""Small services for the tests: a policy file, and replicas that answer and rest."""

from pathlib import Path
from typing import Any

from analyzer.settings.settings import Settings
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet

T = MONDAY
GIB = 2**30
SOURCE = "load test of 2025-10-01"
RESTS: dict[str, Any] = {
    "utilization_ratio": 0.0,
    "utilization_zero_ratio": 1.0,
    "sm_active_ratio": 0.0,
    "memory_used_bytes": 30 * GIB,
}


def working(busy: float) -> dict[str, Any]:
    """Return what a GPU shows that decodes for this share of the time, with room in batches."""
    return RESTS | {
        "utilization_ratio": busy,
        "utilization_zero_ratio": 1 - busy,
        "sm_active_ratio": busy * 0.6,
        "dram_active_ratio": busy * 0.6,
    }


def declared(path: Path, text: str = "", **keys: object) -> Settings:
    """Return settings with one row of policy for the service `chat`, or with a file of this text."""
    file = path / "services.toml"
    file.write_text(text or _row("chat", keys))
    return Settings(services=file)


def policy(fleet: Fleet, **keys: object) -> str:
    """Return one row of policy for the service `chat` of a fleet."""
    return _row(f"chat{fleet.names_end}", keys)


def _row(name: str, keys: dict[str, object]) -> str:
    given: dict[str, object] = {"name": f'"{name}"', "minimum_replicas": 2, "look_back_hours": 1, "from": "2025-01-01"}
    given |= {"source": f'"{SOURCE}"'} | keys
    given.setdefault("requests_per_second", 10)
    lines = [f"{key} = {value}" for key, value in given.items() if value is not None]
    return "[[service]]\n" + "\n".join(lines) + "\n"


def replica(
    fleet: Fleet, number: int, start: int = T, end: int = T + 3 * HOUR, *, busy: float = 0.0, rate: int | None = 0
) -> str:
    """Add a replica of one GPU that is busy for this share of each minute and answers `rate` requests a second.

    Its first minute is work, so that it has begun. Without a rate its stack says nothing.
    """
    run, node, gpu = f"slurm/alpha/{number}", f"n{number}", f"G{number}"
    fleet.own(node, [gpu])
    fleet.hold(run, node, [gpu], start, end, name="chat", queue="serving")
    fleet.sample(node, gpu, start, start + MINUTE, **working(1.0))
    fleet.sample(node, gpu, start + MINUTE, end, **working(busy))
    if rate is not None:
        says(fleet, number, start, end, requests=rate * 60)
    return run


def says(fleet: Fleet, number: int, start: int, end: int, every: int = MINUTE, **told: object) -> None:
    """Let a replica's serving stack say the same of itself in each interval."""
    row = {"node": f"n{number}", "run_id": f"slurm/alpha/{number}", "engine": "vllm", **told}
    fleet.add(
        "service_samples",
        [row | {"started_at": at, "ended_at": min(at + every, end)} for at in range(start, end, every)],
    )
