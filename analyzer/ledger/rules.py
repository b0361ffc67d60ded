"""The rules of findings: of each its revision, and the numbers that it reads. Both make the version a finding names.

A revision is raised by hand, with the code or the SQL of that rule; a number changes the versions of those who read it.
Either also changes the version of all rules together (analyzer/ledger/thresholds.py), by which the ledger is made anew.
tests/analyzer/ledger/test_rules.py holds these lists against what the detectors read.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

# What of a run's time is looked at as work: begun, not long quiet, not in a checkpoint; and how long nothing ran in it.
WORK = (
    "active_permille", "begun_permille", "warm_up_ms", "starting_ms", "quiet_permille", "quiet_ms", "held_mb",
    "abandoned_ms", "checkpoint_bytes_per_gpu", "checkpoint_dip_permille", "full_permille", "dip_samples", "window_ms",
    "look_ahead_ms",
)  # fmt: skip
# How long a run is below its own best, as it is while it spins for its peers: windows.sql.
SHORT = ("yardstick_permille", "deadband_permille", "spinning_permille", "decode_permille")

INPUT = (
    "low_permille", "much_permille", "worker_full_permille", "cpu_throttled_permille", "pressure_cpu_permille",
    "pressure_io_permille", "disk_busy_permille", "waiting_permille", "copy_kb_per_ms", "copied_kb_per_ms",
    "worker_seen_permille", "network_in_kb_per_ms", "network_of_local", "persistence_windows", "dips_needed",
    "resting_permille", "packed_still_permille",
)  # fmt: skip
EXCHANGE = (
    "exchange_kb_per_ms", "exchange_short_permille", "exchange_ms", "slowed_permille", "dense_sm_permille",
    "dense_tensor_permille", "spinning_permille", "hang_utilization_permille", "hang_activity_permille",
    "hang_power_permille", "hang_power_of_usual_permille", "hang_link_permille", "underused_tensor_permille",
    "underused_dram_permille", "effective_sm_permille", "crossing_permille", "lesson_short_permille", "apart_permille",
)  # fmt: skip
STRAGGLER = (
    "slowed_permille", "odd_rank_milli", "rank_spread_permille", "lag_permille", "spinning_permille",
    "spinning_power_permille",
)  # fmt: skip
UNDERUSED = (
    "underused_busy_permille", "underused_sm_permille", "underused_tensor_permille", "underused_dram_permille",
    "underused_power_permille", "launching_utilization_permille", "launching_power_permille",
    "launching_activity_permille", "launching_pcie_kb_per_ms", "one_core_least_milli", "one_core_most_milli",
    "worker_seen_permille", "ineffective_sm_permille",
)  # fmt: skip
_SERVING = ("late_permille", "covered_permille", "read_gap_ms")
_HABIT = ("context_ms", "stuck_kb_per_ms")  # how far back it looks, and which PCIe readings it believes
_FABRIC = ("fabric_back_ms", "fabric_digits")
_HELD = ("active_permille", "begun_permille", "warm_up_ms", "starting_ms", "quiet_permille", "quiet_ms", "held_mb")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: how often its code has changed its judgement, and the thresholds that it reads, by name."""

    revision: int
    reads: tuple[str, ...] = ()

    def version(self, numbers: Mapping[str, int]) -> str:
        """Return its version, such as 2.1f3a: the revision, and a digest of what it reads where it reads anything."""
        if not self.reads:
            return str(self.revision)
        text = json.dumps({name: numbers[name] for name in self.reads}, sort_keys=True)
        return f"{self.revision}.{hashlib.sha256(text.encode()).hexdigest()[:4]}"


_INPUT = Rule(2, (*WORK, *INPUT, *_HABIT))
_UNDERUSED = Rule(2, (*WORK, *UNDERUSED, "exchange_kb_per_ms"))
_THROTTLED = Rule(1, (*WORK, "slowed_permille"))
_LOST = Rule(2, ("checkpoint_bytes_per_gpu", "checkpoint_dip_permille"))
_BROKEN = Rule(1)  # the driver's and the scheduler's word: no number decides

# By state and cause as findings name them; a suspicion's state is unexplained.
RULE_OF: dict[str, Rule] = {
    "starved/preprocessing": _INPUT,
    "starved/storage": _INPUT,
    "starved/network_storage": _INPUT,
    "starved/loader_software": _INPUT,
    "starved/host_to_device": _INPUT,
    "unexplained/preprocessing": _INPUT,
    "unexplained/storage": _INPUT,
    "unexplained/network_storage": _INPUT,
    "unexplained/loader_software": _INPUT,
    "unexplained/host_to_device": _INPUT,
    "held_idle/never_used": Rule(1, _HELD),
    "held_idle/held_memory": Rule(2, (*_HELD, "abandoned_ms")),
    "held_idle/abandoned": Rule(1, (*_HELD, "abandoned_ms", *_SERVING)),
    "communicating/cross_rack": Rule(2, (*WORK, *SHORT, *EXCHANGE, *_FABRIC)),
    "communicating/straggler": Rule(2, (*WORK, *SHORT, *EXCHANGE, *STRAGGLER)),
    "communicating/hang": Rule(1, (*WORK, *SHORT, *EXCHANGE, *_HABIT)),
    "throttled/thermal": _THROTTLED,
    "throttled/power": _THROTTLED,
    "throttled/hardware": _THROTTLED,
    "underused/small_kernels": _UNDERUSED,
    "underused/launch_bound": _UNDERUSED,
    "underused/unbatched": _UNDERUSED,
    "headroom/beyond_policy": Rule(1, (*WORK, *_SERVING)),
    "lost_work/failed": _LOST,
    "lost_work/preempted": _LOST,
    "lost_work/node_failed": _LOST,
    "broken/gpu_lost": _BROKEN,
    "broken/node_down": _BROKEN,
    "broken/hardware": _BROKEN,
}
