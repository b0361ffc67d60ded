"""Tell gpuledger how far this run is. Copy it beside your script; it needs nothing but Python."""

import json
import os
import socket
from typing import Any


def tell(**totals: Any) -> None:  # noqa: ANN401  whatever it is handed, the run goes on
    """Tell totals of the whole run: step, tokens, samples, requests, data_wait_seconds; and a complete checkpoint."""
    if os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")) == "0":
        try:
            path = os.environ.get("GPULEDGER_PROGRESS", "/run/gpuledger/progress.sock")
            plain = {key: _plain(value) for key, value in totals.items() if value is not None}
            plain = {key: value for key, value in plain.items() if value == value}
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as messages:
                messages.sendto(json.dumps(plain).encode(), path)
        except Exception:  # noqa: BLE001, S110  no agent, or it is busy: the next message says it all again
            pass


def _plain(value: Any) -> float | str:  # noqa: ANN401
    """Return a number of any array library as Python's own, and anything else as text."""
    if isinstance(value, (int, float, str)):
        return value
    if hasattr(value, "item"):
        return value.item()  # type: ignore[no-any-return]
    return int(value) if hasattr(value, "__index__") else str(value)
