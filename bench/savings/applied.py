"""From a recommendation to the change of the site that it asks for."""

import math
import re
from collections.abc import Mapping

from analyzer.findings.finding import Finding
from analyzer.recommendations.recommendation import Recommendation
from bench.savings.changes.change import Change
from simulator.plan import Run

# By the kind of recommendation and the cause of its finding: what is done on the site.
CHANGES: dict[tuple[str, str], str] = {
    ("reorder_ranks", "cross_rack"): "order_ranks",
    ("more_cpu", "preprocessing"): "more_workers",
    ("loader_settings", "preprocessing"): "more_workers",
    ("loader_settings", "loader_software"): "more_workers",
    ("loader_settings", "host_to_device"): "pin_memory",
    ("local_nvme", "network_storage"): "stage_input",
    ("cache_input", "storage"): "cache_input",
    ("local_nvme", "storage"): "move_to_same_drives",
    ("release", "abandoned"): "release",
    ("right_size", "never_used"): "ask_for_fewer",
    ("share_mig", "held_memory"): "slice",
    ("pack", "small_kernels"): "pack",
    ("drain_slow_gpu", "straggler"): "exclude",
    ("cool", "thermal"): "cool",
    ("checkpoint", "failed"): "save_more_often",
    ("checkpoint", "preempted"): "save_more_often",
    ("checkpoint", "node_failed"): "save_more_often",
}
EVERY = re.compile(r"every (?:(\d+) h )?(\d+) min")
NODE = re.compile(r"\bn\d\d\b")
SAVE_SECONDS = {"pretrain-7b": 190.0, "vit-large": 60.0}  # of one checkpoint: what a report of the run tells its owner
DEFAULT_SAVE_SECONDS = 60.0


def change_of(advice: Recommendation, finding: Finding, runs: Mapping[str, tuple[Run, ...]]) -> Change | None:
    """Return what is done on the site when this is followed, or None where the simulator cannot do it.

    `runs` are the site's, by the scheduler's job id.
    """
    kind = CHANGES.get((advice.kind, finding.cause))
    if kind is None:
        return None
    numbers = tuple(run_id.rsplit("/", 1)[-1] for run_id in finding.run_ids)
    return Change(
        kind,
        numbers,
        nodes=tuple(sorted(set(NODE.findall(f"{advice.title} {advice.from_}")))) if kind in ("cool", "exclude") else (),
        interval_seconds=_told(advice) or _interval_seconds(numbers, runs) if kind == "save_more_often" else 0.0,
    )


def _told(advice: Recommendation) -> float | None:
    """Return the interval that its title names, in seconds; None where it names none."""
    found = EVERY.search(advice.title)
    return None if found is None else 3_600.0 * int(found[1] or 0) + 60.0 * int(found[2])


def _interval_seconds(numbers: tuple[str, ...], runs: Mapping[str, tuple[Run, ...]]) -> float:
    """Return sqrt(2 x time between failures x time to save), as the recommendation says, by what the week showed."""
    of_it = [run for number in numbers for run in runs.get(number, ())]
    name = of_it[0].plan.name if of_it else ""
    failures = sum(run.plan.lost_by is not None for run in of_it)
    seconds = sum(run.timelines[0].end - max(0, run.timelines[0].start) for run in of_it) / 1_000
    return math.sqrt(2 * seconds / max(1, failures) * SAVE_SECONDS.get(name, DEFAULT_SAVE_SECONDS))
