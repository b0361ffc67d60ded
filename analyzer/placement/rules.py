"""Which proposal answers which loss: one row for each finding and each notice, and what is looked for of itself."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.findings import Finding
from analyzer.notices.notice import Notice
from analyzer.placement import holding, input_path, links
from analyzer.placement.grounds import Grounds
from analyzer.placement.proposal import Proposal
from analyzer.placement.site import Site

if TYPE_CHECKING:
    from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class FindingRule:
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
FleetLook = Callable[["Session", Site, int, int], Iterable[tuple[Grounds, Proposal]]]

FINDINGS = (
    FindingRule("communicating", "cross_rack", links.order_ranks),
    FindingRule("communicating", "straggler", links.replace_slow_gpu),
    FindingRule("throttled", "thermal", links.cool),
    FindingRule("starved", "preprocessing", input_path.more_workers),
    FindingRule("starved", "loader_software", input_path.more_workers),
    FindingRule("starved", "storage", input_path.other_disk),
    FindingRule("starved", "network_storage", input_path.stage_on_nvme),
    FindingRule("starved", "host_to_device", input_path.pin_memory),
    FindingRule("held_idle", "abandoned", holding.release),
    FindingRule("held_idle", "never_used", holding.ask_for_fewer),
    FindingRule("held_idle", "held_memory", holding.share_slices),
    FindingRule("underused", "small_kernels", holding.pack),
    FindingRule("underused", "unbatched", holding.batch),
    FindingRule("lost_work", "failed", holding.checkpoint),
    FindingRule("lost_work", "preempted", holding.checkpoint),
    FindingRule("lost_work", "node_failed", holding.checkpoint),
)

NOTICES: tuple[NoticeRule, ...] = ()

FLEET: tuple[FleetLook, ...] = ()
