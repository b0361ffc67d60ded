"""The open recommendation that would do most for the work that more GPUs are asked for, in words and hours."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire.units import HOUR_US, PERMILLE
from analyzer.capacity.profile.facts import CapacityProfile, OpenAdvice, Represented
from analyzer.text.words import plain_sentence

_PASTE_MOST = 60

# By kind of recommendation: what is to be done first, and how it is told once it is done.
_WORDS = {
    "more_cpu": ("Fix the loader", "With the loader fixed"),
    "loader_settings": ("Fix the loader", "With the loader fixed"),
    "cache_input": ("Cache the input", "With the input cached"),
    "local_nvme": ("Read from local disks", "With its input on local disks"),
    "reorder_ranks": ("Order the ranks by rack", "With the ranks ordered by rack"),
    "co_locate": ("Place each run in one rack", "With each run in one rack"),
    "release": ("Give back what stands idle", "With the idle GPUs given back"),
    "right_size": ("Ask for what the runs use", "With runs of the right size"),
    "checkpoint": ("Fix the checkpoints", "With the checkpoints fixed"),
    "share_mig": ("Share GPUs as slices", "With GPUs shared as slices"),
    "share_time": ("Share GPUs", "With GPUs shared"),
    "pack": ("Put several runs on a GPU", "With several runs on a GPU"),
    "batch": ("Batch the requests", "With requests batched"),
    "fewer_replicas": ("Keep fewer replicas", "With fewer replicas"),
    "mixed_precision": ("Use mixed precision", "With mixed precision"),
    "raise_power_limit": ("Raise the power limit", "With the power limit raised"),
}
INPUT_KINDS = frozenset({"more_cpu", "loader_settings", "cache_input", "local_nvme"})


@dataclass(frozen=True, slots=True)
class Fix:
    """One recommendation as the first thing to do. `hours_to_prove` is one run of the work at its new speed."""

    advice: OpenAdvice
    todo: str
    done: str
    name: str
    hours_to_prove: int | None

    @property
    def in_short(self) -> str:
        """The recommendation and its line: "r-3mx8 (num_workers=8)"."""
        line = plain_sentence(self.advice.paste or self.advice.title)
        line = line if len(line) <= _PASTE_MOST else f"{line[: _PASTE_MOST - 3]}..."
        return f"{plain_sentence(self.advice.id)} ({line})"


def advice_for(work: Sequence[Represented], profile: CapacityProfile) -> tuple[OpenAdvice, ...]:
    """Return the open recommendations but those for other runs of the profile: they make this work no faster."""
    own = {run.name for run in work}
    others = {run.name for run in profile.runs} - own
    return tuple(one for one in profile.advice if own & {*one.run_names} or not others & {*one.run_names})


def fix_of(work: Sequence[Represented], profile: CapacityProfile) -> Fix | None:
    """Return the open recommendation that makes the work fastest (P50), None where none makes it faster."""
    faster = [one for one in advice_for(work, profile) if one.speedup_permille.p50 > PERMILLE]
    if not faster:
        return None
    best = max(faster, key=lambda one: (one.speedup_permille.p50, one.frees.p50, one.id))
    todo, done = _WORDS.get(best.kind, (f"Apply {plain_sentence(best.id)}", f"With {plain_sentence(best.id)} applied"))
    newest = _newest(profile, best)
    name = plain_sentence(newest.name or newest.run_id) if newest else "the work"
    return Fix(best, todo, done, name, _hours(newest, best))


def _newest(profile: CapacityProfile, advice: OpenAdvice) -> Represented | None:
    own = [run for run in profile.runs if run.name in advice.run_names] or list(profile.runs)
    return max(own, key=lambda run: (run.started_at, run.run_id), default=None)


def _hours(run: Represented | None, advice: OpenAdvice) -> int | None:
    """Return how long such a run takes afterwards, in whole hours, begun ones not counted under the half."""
    if run is None or run.ended_at is None or run.ended_at <= run.started_at:
        return None
    faster = (run.ended_at - run.started_at) * PERMILLE
    return max(1, (2 * faster + advice.speedup_permille.p50 * HOUR_US) // (2 * advice.speedup_permille.p50 * HOUR_US))
