"""Which proposal answers which loss: one row for each finding and each notice, and what is looked for of itself."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.site import Site
from analyzer.recommendations.types import checkpointing, hardware, idle, input_path, moves, serving, sharing
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class _FindingRule:
    """What is proposed for a finding of this state and cause."""

    state: str
    cause: str
    propose: Callable[[Finding, Site], Proposal | None]


@dataclass(frozen=True, slots=True)
class NoticeRule:
    """What is proposed for a notice of this rule; the proposal says by itself what it saves."""

    rule: str
    propose: Callable[[Notice, Site], Proposal | None]


# What no finding and no notice says, looked for in the store between start and end, microseconds UTC.
_FleetLook = Callable[["Session", Site, int, int], Iterable[Proposal]]

FINDINGS = (
    _FindingRule("communicating", "cross_rack", moves.order_ranks),
    _FindingRule("communicating", "straggler", hardware.replace_slow_gpu),
    _FindingRule("communicating", "hang", idle.end_hung),
    _FindingRule("throttled", "thermal", hardware.cool),
    _FindingRule("throttled", "hardware", hardware.see_to),
    _FindingRule("throttled", "power", hardware.limit_power),
    _FindingRule("starved", "preprocessing", input_path.more_workers),
    _FindingRule("starved", "loader_software", input_path.more_workers),
    _FindingRule("starved", "storage", input_path.other_disk),
    _FindingRule("starved", "network_storage", input_path.stage_on_nvme),
    _FindingRule("starved", "host_to_device", input_path.pin_memory),
    _FindingRule("held_idle", "abandoned", idle.release),
    _FindingRule("held_idle", "never_used", idle.ask_for_fewer),
    _FindingRule("held_idle", "held_memory", sharing.share_slices),
    _FindingRule("headroom", "beyond_policy", serving.fewer_replicas),
    _FindingRule("underused", "small_kernels", sharing.pack),
    _FindingRule("underused", "unbatched", serving.batch),
    _FindingRule("lost_work", "failed", checkpointing.checkpoint),
    _FindingRule("lost_work", "preempted", checkpointing.checkpoint),
    _FindingRule("lost_work", "node_failed", checkpointing.checkpoint),
)

NOTICES = (
    *(NoticeRule(rule, hardware.drain_sick) for rule in hardware.REMEDIES),
    NoticeRule("fleet/fragmentation/pieces", moves.consolidate),
    NoticeRule("fleet/cpu_only", idle.without_gpus),
    NoticeRule("fleet/mixed", serving.hosts_of_their_own),
    NoticeRule("run/mixed_precision", sharing.mixed_precision),
    NoticeRule("run/too_large", sharing.capped_rerun),
    NoticeRule("checkpoint_cadence", checkpointing.less_often),
    NoticeRule("serving/host_threads", serving.more_cores),
    NoticeRule("serving/kv_cache_full", serving.kv_cache),
)

FLEET: tuple[_FleetLook, ...] = (idle.find_free_hosts, checkpointing.find_spot_changes)
