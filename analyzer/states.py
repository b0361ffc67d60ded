"""The states of the ledger, once: order of precedence, labels, causes, classes and who can act."""

from dataclasses import dataclass
from typing import Literal

Class = Literal["useful", "avoidable", "overhead", "spare", "unknown"]
Confidence = Literal["high", "medium", "low"]

CLASSES: tuple[Class, ...] = ("useful", "avoidable", "overhead", "spare", "unknown")


@dataclass(frozen=True, slots=True)
class Booking:
    """One (state, cause) of the ledger and what people see of it. `cause` is None for a state that needs none."""

    state: str
    cause: str | None
    label: str
    cause_label: str
    klass: Class
    actor: str | None


def _of(state: str, label: str, klass: Class, actor: str | None, **causes: str) -> tuple[Booking, ...]:
    return tuple(Booking(state, cause, label, words, klass, actor) for cause, words in causes.items())


# In order of precedence, but for lost_work, which afterwards takes what would otherwise be one of LOSABLE.
BOOKINGS: tuple[Booking, ...] = (
    *_of("unallocated", "unallocated", "spare", "capacity", free="free"),
    *_of("unallocated", "drained", "spare", "capacity", drained="drained"),
    *_of("unallocated", "reserved, unused", "spare", "capacity", reserved_unused="reserved, unused"),
    *_of("unallocated", "fragmented", "spare", "capacity", fragmented="MIG remainder"),
    *_of(
        "broken",
        "hardware down",
        "avoidable",
        "platform",
        gpu_lost="GPU lost",
        node_down="node down",
        hardware="hardware",
    ),
    *_of(
        "unobserved",
        "not measured",
        "unknown",
        "platform",
        holder_hidden="holder unknown",
        agent_down="agent silent",
        gap="gap",
        never_seen="never seen",
        records_lost="records damaged",
    ),
    *_of("starting", "starting", "overhead", "platform", image_pull="image pull"),
    *_of("starting", "starting", "overhead", "run", model_load="model load", warm_up="warm-up", restore="restore"),
    *_of("checkpointing", "checkpointing", "overhead", "run", storage="to storage", network="over the network"),
    *_of("headroom", "serving headroom", "spare", "run", declared="declared"),
    *_of("headroom", "headroom beyond policy", "avoidable", "run", beyond_policy="beyond policy"),
    *_of(
        "held_idle",
        "idle allocation",
        "avoidable",
        "run",
        never_used="never used",
        held_memory="memory in use",
        abandoned="abandoned",
    ),
    *_of("communicating", "cross-rack transfers", "avoidable", "run", cross_rack="ranks spread over racks"),
    *_of("communicating", "stragglers", "avoidable", "platform", straggler="one rank is slow"),
    *_of("communicating", "uneven work", "avoidable", "run", uneven="another rank is slow each time"),
    *_of("communicating", "hang", "avoidable", "run", hang="no rank moves"),
    *_of("communicating", "communication", "overhead", "run", collective="collectives"),
    *_of("throttled", "throttling", "avoidable", "platform", power="power", thermal="heat", hardware="hardware"),
    *_of(
        "underused",
        "underutilized",
        "avoidable",
        "run",
        small_kernels="small kernels",
        launch_bound="launch-bound",
        unbatched="unbatched",
    ),
    *_of("starved", "input starvation", "avoidable", "platform", storage="storage", network_storage="network storage"),
    *_of(
        "starved",
        "input starvation",
        "avoidable",
        "run",
        preprocessing="preprocessing",
        loader_software="loader software",
        host_to_device="host to device",
        unknown="cause unknown",
    ),
    Booking("unexplained", None, "low utilization, unexplained", "", "unknown", None),
    *_of(
        "productive",
        "productive",
        "useful",
        None,
        compute="compute",
        memory_bandwidth="memory bandwidth",
        decode="decode",
        evaluation="evaluation",
    ),
    *_of("lost_work", "lost work", "avoidable", "run", failed="failed"),
    # Who took the GPUs back, or lost them, is not who ran: that is never the owner's finding.
    *_of("lost_work", "lost work", "avoidable", "platform", preempted="preempted", node_failed="node failed"),
)

STATES: tuple[str, ...] = tuple(dict.fromkeys(booking.state for booking in BOOKINGS))
LOSABLE: frozenset[str] = frozenset({"communicating", "throttled", "underused", "starved", "productive"})

_BY_KEY = {(booking.state, booking.cause): booking for booking in BOOKINGS}


def booking(state: str, cause: str | None) -> Booking:
    """Return what the table says of this state and cause; a KeyError is our own mistake."""
    try:
        return _BY_KEY[state, cause]
    except KeyError:
        raise KeyError(f"BUG: the ledger has no {state}/{cause}") from None


def words_of(klass: Class) -> list[str]:
    """Return the bookings of a class as SQL compares them: "starved/storage", "productive/" where there is no cause."""
    return [f"{each.state}/{each.cause or ''}" for each in BOOKINGS if each.klass == klass]


def states_of(klass: Class) -> tuple[list[str], list[str]]:
    """Return the states that are wholly of a class, and those that are with some causes.

    SQL compares a state alone several times as quickly as with its cause: of the first it need not look at it.
    """
    of, others = ({each.state for each in BOOKINGS if (each.klass == klass) is own} for own in (True, False))
    return sorted(of - others), sorted(of & others)
