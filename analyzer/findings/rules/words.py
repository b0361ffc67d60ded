"""The words of each finding, once: its name in lists, its sentence, and what would prove it wrong.

Sentences take `Run` ("Run llama-sft on n14-n15"), `run` ("run llama-sft"), `for_run` (" for run llama-sft", or
nothing where nobody held), `place` (hosts), `gpu` (": GPU-1abd64be on n11",
where the root is known), `share` ("41 % of the time") and `limit`. What the platform did is said of its hosts and GPUs:
a test holds that no sentence of it begins with the run.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """`what` stands in lists; `sentence` is whole without the figures, which whoever prints it adds."""

    what: str
    sentence: str
    wrong_if: str


WORDS: dict[tuple[str, str | None], Words] = {
    ("starved", "preprocessing"): Words(
        "input: preprocessing",
        "{Run} waits for its input {share}: {limit}.",
        "synthetic input does not make a step at least {speedup}x faster",
    ),
    ("starved", "storage"): Words(
        "input: storage",
        "The local disk of {place} is the limit{for_run}, which waits for it {share}: {limit}.",
        "the same data read from another disk does not make a step at least {speedup}x faster",
    ),
    ("starved", "network_storage"): Words(
        "input: network storage",
        "The network mount of {place} is the limit{for_run}, which waits for it {share}: {limit}.",
        "the same data read from local NVMe does not make a step at least {speedup}x faster",
    ),
    ("starved", "loader_software"): Words(
        "input: loader software",
        "{Run} waits for its input {share}: {limit}.",
        "more workers or deeper prefetching do not make a step at least {speedup}x faster",
    ),
    ("starved", "host_to_device"): Words(
        "input: host to device",
        "{Run} waits for copies from host memory to its GPUs {share}.",
        "pinned memory and asynchronous copies do not make a step at least {speedup}x faster",
    ),
    ("held_idle", "never_used"): Words(
        "idle, never used",
        "{Run} holds GPUs that it has never used, {share}.",
        "the run did work there that no GPU counter shows",
    ),
    ("held_idle", "held_memory"): Words(
        "idle, memory in use",
        "{Run} keeps memory on GPUs that do nothing, {share}.",
        "somebody waited for exactly these GPUs to stay warm",
    ),
    ("held_idle", "abandoned"): Words(
        "idle, abandoned",
        "{Run} still holds GPUs that fell quiet, {share}.",
        "the run was about to go on",
    ),
    ("communicating", "cross_rack"): Words(
        "cross-rack transfers",
        "{Run} crosses racks more than it must: {share} goes into exchanges that the same bytes would not need inside "
        "a rack.",
        "ranks in one rack, or ordered by rack, do not shorten a step by 3 % within 50 steps",
    ),
    ("communicating", "straggler"): Words(
        "stragglers",
        "The slowest GPU holds up all ranks{for_run}, {share}{gpu}.",
        "another GPU in its place does not shorten a step",
    ),
    ("communicating", "hang"): Words(
        "hang",
        "{Run} hangs {share}: every GPU spins in a collective, and nothing moves.",
        "the run's own log shows steps in that time",
    ),
    ("throttled", "thermal"): Words(
        "throttling: heat",
        "Heat slows GPUs of {place}{for_run}: {share} is lost in clock.",
        "the same work at a lower room temperature runs at the same clock",
    ),
    ("throttled", "power"): Words(
        "throttling: power limit",
        "The power limit slows GPUs of {place}{for_run}: {share} is lost in clock.",
        "a higher limit does not raise the clock",
    ),
    ("throttled", "hardware"): Words(
        "throttling: hardware",
        "The board slows GPUs of {place}{for_run}: {share} is lost in clock.",
        "the board's brake was asked for",
    ),
    ("underused", "small_kernels"): Words(
        "underutilized: small kernels",
        "{Run} keeps its GPUs busy with little of the chip in use, {share}.",
        "two such runs side by side on one GPU are each as slow as half a GPU",
    ),
    ("underused", "launch_bound"): Words(
        "underutilized: launch-bound",
        "{Run} keeps its GPUs waiting for kernel launches {share}.",
        "CUDA graphs do not shorten a step",
    ),
    ("underused", "unbatched"): Words(
        "underutilized: unbatched",
        "{Run} serves in small batches: busy with little of the chip in use, {share}.",
        "batching does not raise requests a second at the same latency",
    ),
    ("headroom", "beyond_policy"): Words(
        "headroom beyond policy",
        "{Run} keeps more in reserve than its declared policy asks for, {share}.",
        "the policy in force asks for them",
    ),
    ("lost_work", "failed"): Words(
        "lost work: run failed",
        "{Run} failed, and what it did since its last checkpoint is lost: {share}.",
        "a checkpoint that was not seen holds the work",
    ),
    ("lost_work", "preempted"): Words(
        "lost work: preempted",
        "The scheduler took the GPUs of {place} back, and what was done there{for_run} since the last checkpoint is "
        "lost: {share}.",
        "a checkpoint that was not seen holds the work",
    ),
    ("lost_work", "node_failed"): Words(
        "lost work: node failed",
        "A host of {place} failed, and what was done there{for_run} since the last checkpoint is lost: {share}.",
        "a checkpoint that was not seen holds the work",
    ),
    ("broken", "gpu_lost"): Words(
        "hardware down: GPU lost",
        "GPUs of {place} were lost to their driver{for_run}.",
        "the driver answered for them in that time",
    ),
    ("broken", "node_down"): Words(
        "hardware down: node down",
        "The host {place} was down{for_run}.",
        "the node did work in that time",
    ),
    ("broken", "hardware"): Words(
        "hardware down: hardware",
        "Hardware of {place} is broken{for_run}.",
        "the hardware passes its diagnosis",
    ),
}
SUSPICION = Words(
    "perhaps input: {cause}",
    "{Run} is low {share} without a proven cause; it looks like input starvation ({cause}).",
    "{missing}",
)
