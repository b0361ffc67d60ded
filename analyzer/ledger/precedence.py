"""Which state takes which part of the time, once: sql/booking.sql is made from these two tables.

analyzer/states.py has the states with their labels and classes, in the same order; detectors (causes/, classifier.py)
say what a window of a run shows. Here it is decided what is booked of that. Work that was lost is taken last, of
whatever it would otherwise be (states.LOSABLE).
"""

from dataclasses import dataclass

_NONE = "NULL"


@dataclass(frozen=True, slots=True)
class _Unworked:
    """Time in which nothing was worked, or nobody says. The first of these whose `when` holds takes all of it.

    `when` is over: rid (the holder), host_state (what the scheduler says of the host), up (whether the GPU answered;
    null where it was not asked), is_blind (whether no activity was measured), fixed and starting_as (what a held GPU
    without work is, as starting.py found), and the is_… of `known` in sql/booking.sql.
    """

    when: str
    state: str
    cause: str  # as SQL, so that it may be a column


@dataclass(frozen=True, slots=True)
class _Worked:
    """A part of the time in which something was worked. All of these are taken; their milliseconds sum to the whole.

    All but `state` are SQL over `s` of sql/booking.sql: a bucket of a run with the verdict of its window.
    """

    state: str
    cause: str
    milliseconds: str
    when: str = "true"
    confidence: str = "'medium'"
    suspicion: str = _NONE
    caused_by: str = _NONE


UNWORKED = (
    _Unworked("rid IS NULL AND host_state = 'drained'", "unallocated", "'drained'"),
    _Unworked("rid IS NULL AND host_state = 'reserved'", "unallocated", "'reserved_unused'"),
    _Unworked("is_holder_lost AND up", "unobserved", "'records_lost'"),
    _Unworked("rid IS NULL AND is_fragment", "unallocated", "'fragmented'"),
    _Unworked("up = false", "broken", "'gpu_lost'"),
    _Unworked("host_state = 'down' AND up IS NULL", "broken", "'node_down'"),
    _Unworked("is_holder_lost", "unobserved", "'records_lost'"),
    _Unworked("rid IS NULL AND is_holder_hidden", "unobserved", "'holder_hidden'"),
    _Unworked("rid IS NULL AND (up OR is_scheduled)", "unallocated", "'free'"),
    # Silence is not idleness: where nobody was asked, the driver's last word is no state.
    _Unworked("up IS NULL AND is_sample_lost", "unobserved", "'records_lost'"),
    _Unworked("up IS NULL AND NOT is_seen", "unobserved", "'never_seen'"),
    _Unworked("up IS NULL AND is_long", "unobserved", "'agent_down'"),
    _Unworked("up IS NULL OR is_blind", "unobserved", "'gap'"),
    _Unworked("fixed = 'starting'", "starting", "starting_as"),
    _Unworked("fixed IS NOT NULL", "held_idle", "fixed"),
    _Unworked("true", "unobserved", "'gap'"),
)
_AT_WORK = "is_low IS DISTINCT FROM true AND NOT waits AND launches IS DISTINCT FROM true"
_BEYOND, _IDLE = "still_ms * beyond_permille // 1000", "still_ms * idle_permille // 1000"
_ASKED = "still_ms * asked_permille // 1000"
# What is bound by its memory loses less than its clock does.
_OF_A_CLOCK = "if(work = 'memory_bandwidth', 'medium', 'high')"
WORKED = (
    _Worked("checkpointing", "if(over_network, 'network', 'storage')", "saving_ms"),
    # What stood still: of a service it is its reserve between requests, and in them nobody knows what it waited for; of
    # a person's session it is held, else it waits for input.
    _Worked("headroom", "'declared'", f"still_ms - {_BEYOND} - {_IDLE} - {_ASKED}", "is_service"),
    _Worked("unexplained", _NONE, _ASKED, "is_service", "'low'"),
    _Worked("headroom", "'beyond_policy'", _BEYOND, "is_service"),
    _Worked("held_idle", "'abandoned'", _IDLE, "is_service"),
    _Worked("held_idle", "'held_memory'", "still_ms", "is_interactive"),
    _Worked("starved", "input_cause", "starved_ms", confidence="input_confidence"),
    _Worked("unexplained", _NONE, "still_ms - starved_ms", "is_low AND NOT waits", "'low'", "input_suspicion"),
    _Worked("productive", "coalesce(work, 'compute')", "still_ms - starved_ms", _AT_WORK),
    # Between two launches the chip stands still: that is the launching, and no lack of input.
    _Worked("underused", "underused_cause", "still_ms - starved_ms", "launches AND NOT waits", "underused_confidence"),
    _Worked(
        "communicating", "if(is_uneven, 'uneven', 'straggler')", "straggler_ms + lagging_ms", caused_by="caused_by"
    ),
    _Worked("communicating", "'cross_rack'", "cross_ms + crossing_ms", confidence="exchange_confidence"),
    _Worked("communicating", "'collective'", "short_ms - straggler_ms - cross_ms + steady_ms"),
    _Worked("communicating", "spins_for", "waiting_ms"),
    _Worked("communicating", "'hang'", "rest_ms", "is_hung", "hang_confidence"),
    _Worked("throttled", "'power'", "slow_power_ms", confidence=_OF_A_CLOCK),
    _Worked("throttled", "'thermal'", "slow_heat_ms", confidence=_OF_A_CLOCK),
    _Worked("throttled", "'hardware'", "slow_board_ms", confidence=_OF_A_CLOCK),
    _Worked("underused", "underused_cause", "rest_ms", "is_underused AND NOT is_hung", "underused_confidence"),
    _Worked("productive", "coalesce(work, 'compute')", "rest_ms", "is_underused IS DISTINCT FROM true AND NOT is_hung"),
)


def booking_texts() -> tuple[tuple[str, str], ...]:
    """Return the parts of sql/booking.sql that say which state takes what."""
    worked = "\n    UNION ALL ".join(
        f"SELECT sid, bucket_ms, '{line.state}' AS state, {line.cause} AS cause, "
        f"{line.suspicion}::VARCHAR AS suspicion, {line.confidence} AS confidence, "
        f"{line.caused_by}::VARCHAR AS caused_by, {line.milliseconds} AS ms FROM s WHERE {line.when}"
        for line in WORKED
    )
    return ("worked", worked), ("state", _case("state")), ("cause", _case("cause"))


def _case(what: str) -> str:
    taken = ((line.when, f"'{line.state}'" if what == "state" else line.cause) for line in UNWORKED)
    return f"CASE {' '.join(f'WHEN {when} THEN {then}' for when, then in taken)} END"
