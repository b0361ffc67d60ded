"""The demo fleet as a command: `python -m agent.simulated --url http://127.0.0.1:8470 --seed 1`."""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from agent.simulated.batches import batch_count, batches
from agent.simulated.changes.apply import KINDS
from agent.simulated.changes.change import Change
from agent.simulated.fleet import Fleet
from agent.simulated.send import DeliveryError, encode_batch, send
from agent.simulated.site import HOUR, Site, alpha_site, small_site
from agent.simulated.truth import write_truth

TOKEN = "GPULEDGER_SIMULATED_TOKEN"  # noqa: S105 - the variable of the bearer token that the collector asks for
PROGRESS_SECONDS = 0.2  # at most so often


def main(arguments: Sequence[str]) -> int:
    """Send the fleet, or encode it for nobody where no URL is given; return the exit code."""
    asked = _parser().parse_args(arguments)
    if asked.token is not None:
        print(f"gpuledger demo fleet: --token is no flag, which others read (ps): put it into {TOKEN}", file=sys.stderr)
        return 2
    fleet = Fleet(_site(asked))
    report = _progress(batch_count(fleet)) if asked.progress else lambda _: None
    try:
        if asked.url is not None:
            told = send(asked.url, batches(fleet), token=os.environ.get(TOKEN), done=report)
            summary = f"{told.batches} batches, {told.gpu_rows} GPU rows, {told.bytes} bytes, {told.retries} retries"
        else:
            summary = _encode_all(fleet, report)
        if asked.truth is not None:
            summary += f"; {write_truth(fleet, asked.truth)} rows of truth in {asked.truth}"
    except (DeliveryError, OSError) as error:
        print(f"gpuledger demo fleet: {error}", file=sys.stderr)
        return 3
    if not asked.progress:
        print(summary)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agent.simulated", description=__doc__)
    parser.add_argument("--url", help="the collector; without it the batches are made and encoded, but not sent")
    parser.add_argument("--token", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same bytes")
    parser.add_argument("--every", type=int, default=60, metavar="SECONDS", help="beat of the GPU samples")
    parser.add_argument("--last-day-every", type=int, metavar="SECONDS", help="beat of the last day; else as --every")
    parser.add_argument("--truth", type=Path, metavar="FILE", help="write what is true to FILE (.npz); never sent")
    parser.add_argument("--site", choices=("week", "small"), default="week", help="24 hosts a week, or 2 for 2 hours")
    parser.add_argument(
        "--change",
        type=_change,
        action="append",
        default=[],
        metavar="KIND:RUN,RUN[@HOURS]",
        help="change these runs, from so many hours of the span on: " + ", ".join(sorted(KINDS)),
    )
    parser.add_argument("--progress", action="store_true", help='lines of {"done": n, "of": m} on stdout')
    return parser


def _change(text: str) -> Change:
    """Return a change as it is typed, such as more_workers:81234@72."""
    kind, _, rest = text.partition(":")
    runs, _, hours = rest.partition("@")
    if kind not in KINDS:
        raise argparse.ArgumentTypeError(f"no change is called {kind}: there are {', '.join(sorted(KINDS))}")
    if not runs:
        raise argparse.ArgumentTypeError(f"{text} names no run: {kind}:81234")
    try:
        since = round(float(hours or 0) * HOUR)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{hours} is no number of hours") from error
    return Change(kind, tuple(runs.split(",")), since)


def _site(asked: argparse.Namespace) -> Site:
    if asked.site == "small":
        site = small_site(asked.seed, asked.every)
    else:
        site = alpha_site(asked.seed, asked.every, asked.last_day_every)
    return replace(site, changes=tuple(asked.change))


def _encode_all(fleet: Fleet, report: Callable[[int], None]) -> str:
    began, rows, size, count = time.monotonic(), 0, 0, 0
    for batch in batches(fleet):
        size += len(encode_batch(batch))
        rows += batch.rows
        count += 1
        report(count)
    return f"{count} batches, {rows} GPU rows, {size} bytes, encoded in {time.monotonic() - began:.1f} s"


def _progress(of: int) -> Callable[[int], None]:
    """Return what prints a line of progress now and then, and always the last one."""
    printed = 0.0

    def report(done: int) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed >= PROGRESS_SECONDS or done >= of:
            printed = now
            print(json.dumps({"done": done, "of": of}), flush=True)

    return report
