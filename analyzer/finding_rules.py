"""The words of each finding, once: its name in lists, its sentence, and what would prove it wrong."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """`what` stands in lists; `sentence` takes share (of the run's time), hours (GPU-hours) and subject."""

    what: str
    sentence: str
    wrong_if: str


WORDS: dict[tuple[str, str | None], Words] = {
    ("starved", "preprocessing"): Words(
        "input: preprocessing",
        "{share} of {subject} went into waiting for input. The loader workers are the limit: they fill their cores.",
        "synthetic input does not make a step at least {speedup}x faster",
    ),
    ("starved", "storage"): Words(
        "input: storage",
        "{share} of {subject} went into waiting for input. The local disk is the limit: its readers wait for it.",
        "the same data read from another disk does not make a step at least {speedup}x faster",
    ),
    ("starved", "network_storage"): Words(
        "input: network storage",
        "{share} of {subject} went into waiting for input. The network mount is the limit: its readers wait for it.",
        "the same data read from local NVMe does not make a step at least {speedup}x faster",
    ),
    ("starved", "loader_software"): Words(
        "input: loader software",
        "{share} of {subject} went into waiting for input, while disk, network and cores have room: the loader itself "
        "is the limit.",
        "more workers or deeper prefetching do not make a step at least {speedup}x faster",
    ),
    ("starved", "host_to_device"): Words(
        "input: host to device",
        "{share} of {subject} went into waiting for copies from host memory to the GPU.",
        "pinned memory and asynchronous copies do not make a step at least {speedup}x faster",
    ),
    ("held_idle", "never_used"): Words(
        "idle, GPU never used",
        "{subject} held {hours} GPU-hours on GPUs that it never used.",
        "the run did work there that no GPU counter shows",
    ),
    ("held_idle", "held_memory"): Words(
        "idle, memory held",
        "{subject} held {hours} GPU-hours in which its GPUs kept memory and did nothing.",
        "somebody waited for exactly these GPUs to stay warm",
    ),
    ("held_idle", "abandoned"): Words(
        "idle, still held",
        "{subject} held {hours} GPU-hours after its GPUs fell quiet.",
        "the run was about to go on",
    ),
    ("communicating", "cross_rack"): Words(
        "across racks",
        "{subject} crosses racks more than it must: its exchanges took {hours} GPU-hours longer than the same bytes "
        "take inside a rack.",
        "ranks in one rack, or ordered by rack, do not shorten a step by 3 % within 50 steps",
    ),
    ("communicating", "straggler"): Words(
        "slowest rank",
        "The ranks of {subject} waited {hours} GPU-hours for one slow GPU.",
        "another GPU in its place does not shorten a step",
    ),
    ("communicating", "hang"): Words(
        "hung",
        "{subject} hung for {hours} GPU-hours: every GPU spun in a collective, and nothing moved.",
        "the run's own log shows steps in that time",
    ),
    ("throttled", "thermal"): Words(
        "heat",
        "Heat cost {subject} {hours} GPU-hours of clock.",
        "the same work at a lower room temperature runs at the same clock",
    ),
    ("throttled", "power"): Words(
        "power limit",
        "The power limit cost {subject} {hours} GPU-hours of clock.",
        "a higher limit does not raise the clock",
    ),
    ("throttled", "hardware"): Words(
        "slowed by the board",
        "The board slowed {subject} by {hours} GPU-hours of clock.",
        "the board's brake was asked for",
    ),
    ("underused", "small_kernels"): Words(
        "underused: small kernels",
        "{subject} kept its GPUs busy for {hours} GPU-hours with little of the chip in use.",
        "two such runs side by side on one GPU are each as slow as half a GPU",
    ),
    ("underused", "launch_bound"): Words(
        "underused: launch-bound",
        "{subject} kept its GPUs waiting for kernel launches for {hours} GPU-hours.",
        "CUDA graphs do not shorten a step",
    ),
    ("underused", "unbatched"): Words(
        "underused: unbatched",
        "{subject} served requests one by one: {hours} GPU-hours busy with little of the chip in use.",
        "batching does not raise requests a second at the same latency",
    ),
    ("headroom", "beyond_policy"): Words(
        "headroom beyond policy",
        "{subject} kept {hours} GPU-hours in reserve beyond its declared policy.",
        "the policy in force asks for them",
    ),
    ("lost_work", "failed"): Words(
        "work lost: run failed",
        "{subject} failed, and {hours} GPU-hours of work since its last checkpoint are lost.",
        "a checkpoint that was not seen holds the work",
    ),
    ("lost_work", "preempted"): Words(
        "work lost: preempted",
        "{subject} was preempted, and {hours} GPU-hours of work since its last checkpoint are lost.",
        "a checkpoint that was not seen holds the work",
    ),
    ("lost_work", "node_failed"): Words(
        "work lost: node failed",
        "A node of {subject} failed, and {hours} GPU-hours of work since its last checkpoint are lost.",
        "a checkpoint that was not seen holds the work",
    ),
    ("broken", "gpu_lost"): Words(
        "broken: GPU lost",
        "GPUs of {subject} were lost for {hours} GPU-hours.",
        "the driver answered for them in that time",
    ),
    ("broken", "node_down"): Words(
        "broken: node down",
        "{subject} was down for {hours} GPU-hours.",
        "the node did work in that time",
    ),
    ("broken", "hardware"): Words(
        "broken: hardware",
        "{subject} was broken for {hours} GPU-hours.",
        "the hardware passes its diagnosis",
    ),
}
SUSPICION = Words(
    "perhaps input: {cause}",
    "{share} of {subject} is low without a proven cause; it looks like waiting for input ({cause}).",
    "{missing}",
)
