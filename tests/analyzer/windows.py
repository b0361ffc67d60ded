"""Windows and facts by hand: eight GPUs on two hosts that work at full tilt, and what a test says otherwise."""

from typing import Any

from analyzer.ledger.windows import RunFacts, RunWindow
from analyzer.period import WINDOW_MS

RUN = "slurm/alpha/1"
GPUS = 8
SECONDS = WINDOW_MS // 1000


def window(number: int = 0, **values: Any) -> RunWindow:
    """Return ten minutes of a run whose GPUs report everything and lose nothing."""
    gpus = values.get("gpus", GPUS)
    usual: dict[str, Any] = {
        "run_id": RUN,
        "window_ms": number * WINDOW_MS,
        "gpus": gpus,
        "ms": gpus * WINDOW_MS,
        "sm_ms": gpus * WINDOW_MS,
        "shares_ms": gpus * WINDOW_MS,
        "activity": 900,
        "still": 0,
        "short": 0,
        "utilization": 990,
        "best": 900,
    }
    return RunWindow(**(usual | values))


def stalled(number: int = 0, **values: Any) -> RunWindow:
    """Return ten minutes of which the GPUs stood still for 400 permille."""
    return window(number, **({"still": 400, "activity": 540, "utilization": 600} | values))


def facts(**values: Any) -> RunFacts:
    """Return what is known of a training run on two hosts of one rack."""
    usual: dict[str, Any] = {
        "run_id": RUN,
        "stage": "training",
        "gpus": GPUS,
        "nodes": 2,
        "racks": 1,
    }
    return RunFacts(**(usual | values))
