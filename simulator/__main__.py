"""The demo fleet as a command: `python -m simulator --url http://127.0.0.1:8470 --seed 1`."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence

from simulator.batches import batch_count, batches
from simulator.fleet import Fleet
from simulator.send import DeliveryError, send
from simulator.site import alpha_site, small_site

_PROGRESS_SECONDS = 0.2  # at most so often


def main(arguments: Sequence[str]) -> int:
    """Send the fleet; return the exit code."""
    asked = _parser().parse_args(arguments)
    small = asked.site == "small"
    site = small_site(asked.seed, asked.every) if small else alpha_site(asked.seed, asked.every, asked.last_day_every)
    fleet = Fleet(site)
    report = _progress(batch_count(fleet)) if asked.progress else lambda _: None
    try:
        told = send(asked.url, batches(fleet), report)
    except (DeliveryError, OSError) as error:
        print(f"gpuledger demo fleet: {error}", file=sys.stderr)
        return 3
    if not asked.progress:
        print(f"{told.batches} batches, {told.gpu_rows} GPU rows, {told.bytes} bytes, {told.retries} retries")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulator", description=__doc__)
    parser.add_argument("--url", required=True, help="address of the collector")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same bytes")
    parser.add_argument("--every", type=int, default=60, metavar="SECONDS", help="sampling interval of the GPUs")
    parser.add_argument(
        "--last-day-every", type=int, metavar="SECONDS", help="the same on the last day; default: --every"
    )
    parser.add_argument(
        "--site", choices=("week", "small"), default="week", help="24 hosts for a week, or 2 hosts for 2 hours"
    )
    parser.add_argument("--progress", action="store_true", help='lines of {"done": n, "of": m} on stdout')
    return parser


def _progress(of: int) -> Callable[[int], None]:
    """Return what prints a line of progress now and then, and always the last one."""
    printed = 0.0

    def report(done: int) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed >= _PROGRESS_SECONDS or done >= of:
            printed = now
            print(json.dumps({"done": done, "of": of}), flush=True)

    return report


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
