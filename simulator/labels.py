"""The names that truth uses. They are those of the analyzer's states; a test holds the two lists together."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Label:
    """What a GPU-second really was. `would_be` is what lost work was while it was done, None elsewhere."""

    state: str
    cause: str | None
    would_be: str | None = None


# States whose seconds a failure takes with it; what was idle or starting before was not lost by failing.
LOSABLE = frozenset({"communicating", "throttled", "underused", "starved", "productive"})

FREE = Label("unallocated", "free")
DRAINED = Label("unallocated", "drained")
GPU_LOST = Label("broken", "gpu_lost")
NODE_DOWN = Label("broken", "node_down")
AGENT_DOWN = Label("unobserved", "agent_down")
IMAGE_PULL = Label("starting", "image_pull")
MODEL_LOAD = Label("starting", "model_load")
WARM_UP = Label("starting", "warm_up")
RESTORE = Label("starting", "restore")
SAVING_LOCALLY = Label("checkpointing", "storage")
SAVING_REMOTELY = Label("checkpointing", "network")
HEADROOM = Label("headroom", "declared")
NEVER_USED = Label("held_idle", "never_used")
MEMORY_HELD = Label("held_idle", "held_memory")
ABANDONED = Label("held_idle", "abandoned")
CROSS_RACK = Label("communicating", "cross_rack")
STRAGGLER = Label("communicating", "straggler")
HANG = Label("communicating", "hang")
COLLECTIVE = Label("communicating", "collective")
POWER = Label("throttled", "power")
THERMAL = Label("throttled", "thermal")
SMALL_KERNELS = Label("underused", "small_kernels")
LAUNCH_BOUND = Label("underused", "launch_bound")
UNBATCHED = Label("underused", "unbatched")
STORAGE = Label("starved", "storage")
NETWORK_STORAGE = Label("starved", "network_storage")
PREPROCESSING = Label("starved", "preprocessing")
LOADER_SOFTWARE = Label("starved", "loader_software")
HOST_TO_DEVICE = Label("starved", "host_to_device")
UNEXPLAINED = Label("unexplained", None)
COMPUTE = Label("productive", "compute")
DECODE = Label("productive", "decode")
EVALUATION = Label("productive", "evaluation")


def lost(label: Label, cause: str) -> Label:
    """Return what a label becomes when a failure throws its work away."""
    return Label("lost_work", cause, label.state) if label.state in LOSABLE else label
