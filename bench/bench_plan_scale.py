"""How good plans are, and how soon: python -m bench.bench_plan_scale [--seeds 5].

OLB, HEFT, randomised HEFT and CP-SAT on task graphs of the sizes that the reference measured, as `gpuledger capacity
plan` runs them. The clock counts, so the machine must be quiet; the processor's seconds, ours and CP-SAT's, stand
beside it.
"""

import argparse
import sys
import time

from analyzer.capacity.planner.solve import solve
from bench.machine import add_record, cpu_seconds, keep, machine, told
from bench.plans.scarce import scarce

# Tasks, nodes, seconds that the search may take; by wall clock, so a machine that is shared searches less.
SIZES = ((20, 3, 10.0), (50, 4, 10.0), (100, 6, 20.0), (200, 9, 20.0), (200, 30, 20.0))
SMALL_TASKS, SMALL_SECONDS = 50, 2.0
# 2,826 minutes against a bound of 2,605: the best of the reference for 200 tasks on 9 nodes.
LARGE, LARGE_GAP = (200, 9), 2826 / 2605 - 1
Row = dict[str, object]


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="problems of each size")
    add_record(parser)
    asked = parser.parse_args()
    before = machine()
    rows = [_row(seed, *size) for size in SIZES for seed in range(1, asked.seeds + 1)]
    keep("plan_scale", {"machine": before, "rows": rows}, record=asked.record)
    small = [row for row in rows if int(str(row["tasks"])) <= SMALL_TASKS]
    large = [float(str(row["gap_ratio"])) for row in rows if (row["tasks"], row["nodes"]) == LARGE]
    return told(
        {
            f"{len(small)} problems of {SMALL_TASKS} tasks or fewer are proven optimal": all(
                r["optimal"] for r in small
            ),
            f"each within {SMALL_SECONDS:.0f} s": all(
                float(str(row["wall_seconds"])) <= SMALL_SECONDS for row in small
            ),
            f"200 tasks on 9 nodes are within {LARGE_GAP:.1%} of the bound, at worst {max(large):.1%}": max(large)
            <= LARGE_GAP,
        }
    )


def _row(seed: int, tasks: int, nodes: int, seconds: float) -> Row:
    problem = scarce(seed, tasks, nodes)
    cpu, began = cpu_seconds(), time.monotonic()
    answer = solve(problem, seconds)
    bound = answer.plan.lower_bound_seconds
    row: Row = {
        "tasks": tasks,
        "nodes": nodes,
        "seed": seed,
        "bound_minutes": round(answer.earliest_seconds / 60, 1),
        **{f"{plan.solver}_minutes": round(plan.makespan_seconds / 60, 1) for plan in answer.compared},
        "optimal": answer.plan.is_optimal,
        "gap_ratio": round(answer.plan.makespan_seconds / bound - 1, 4) if bound else 0.0,
        "cpu_seconds": round(cpu_seconds() - cpu, 2),
        "wall_seconds": round(time.monotonic() - began, 2),
    }
    print(*(f"{name} {value}" for name, value in row.items()), sep="  ", flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())
