"""Which share of a loss each change recovers, by what is true alone: python -m bench.savings.shares.

No ledger is made and no recommendation asked for: a seed takes seconds. For setting what predictors assume, which is
why seeds 1 to 50, on which they are judged, are refused. A share is of the loss as it truly is; what a ledger books
of it differs by some per cent (`bench_savings` measures against what is booked).
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from bench.machine import add_record, keep, quantile
from bench.savings.changes.apply import changed
from bench.savings.changes.change import Change
from bench.savings.changes.pace import lengths_of
from bench.savings.measured import held_ms
from simulator.fleet import Fleet
from simulator.plan import Run
from simulator.site import alpha_site

JUDGED = range(1, 51)
SHARES = (0.05, 0.20, 0.50, 0.80, 0.95)

# Change, whose runs, and the causes that its findings would name.
ASKED = (
    ("order_ranks", "pretrain-7b", "cross_rack"),
    ("more_workers", "llama-sft", "preprocessing"),
    ("more_workers", "doc-ocr", "preprocessing"),
    ("more_workers", "det-sweep", "loader_software"),
    ("more_workers", "eval", "loader_software"),
    ("pin_memory", "embed-train", "host_to_device"),
    ("stage_input", "asr-finetune", "network_storage"),
    ("cache_input", "vit-large", "storage"),
    ("release", "debug-asr", "abandoned"),
    ("release", "det-sweep", "abandoned"),
    ("ask_for_fewer", "det-sweep", "never_used"),
    ("ask_for_fewer", "data-prep", "never_used"),
    ("slice", "notebook", "held_memory"),
    ("pack", "det-sweep", "small_kernels"),
    ("cool", "pretrain-7b", "thermal straggler"),
    ("exclude n11", "pretrain-7b", "thermal straggler"),
    ("exclude n11 n12", "pretrain-7b", "thermal straggler"),
)


def main() -> int:
    """Apply every change to every seed, print and keep the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=101)
    parser.add_argument("--seeds", type=int, default=50)
    add_record(parser)
    asked = parser.parse_args()
    wanted = range(asked.first, asked.first + asked.seeds)
    if set(wanted) & set(JUDGED):
        parser.error("seeds 1 to 50 judge the predictors, and may not set them")
    found: dict[str, list[float]] = defaultdict(list)
    for seed in wanted:
        for name, share in shares(seed):
            found[name].append(round(share, 4))
    print("| change · runs · cause | seeds | P5 | P20 | P50 | P80 | P95 |\n|---|---|---|---|---|---|---|")
    for name, came in found.items():
        told = " | ".join(f"{quantile(sorted(came), at):.3f}" for at in SHARES)
        print(f"| {name} | {len(came)} | {told} |")
    keep("savings_shares", found, record=asked.record)
    return 0


def shares(seed: int) -> Iterator[tuple[str, float]]:
    """Yield each change with the saved GPU time over the true loss of its cause, where there is one."""
    fleet = Fleet(alpha_site(seed))
    for told, name, causes in ASKED:
        wanted = frozenset(causes.split())
        kind, *nodes = told.split()
        runs = [run for run in fleet.runs if run.plan.name == name]
        numbers = tuple(dict.fromkeys(run.plan.number for run in runs if _lost(run, wanted)))
        before = tuple(run for run in runs if run.plan.number in numbers)
        loss = sum(_lost(run, wanted) for run in before)
        if loss:
            change = Change(kind, numbers, nodes=tuple(nodes) or ("n11", "n12"))
            saved = held_ms(before) - held_ms(changed(before, [change], fleet.site))
            yield f"{told} · {name} · {causes}", saved / loss


def _lost(run: Run, causes: frozenset[str]) -> float:
    """Return the GPU-milliseconds within the span that are truly of these causes."""
    seconds = 0.0
    for seat in range(len(run.plan.seats)):
        timeline = run.timeline(seat)
        timeline = timeline.between(max(0, timeline.start), timeline.end)
        told = [sum(share for label, share in phase.truth if label.cause in causes) for phase in timeline.activities]
        seconds += float((lengths_of(timeline) * np.array(told)[timeline.index]).sum())
    return seconds


if __name__ == "__main__":
    sys.exit(main())
