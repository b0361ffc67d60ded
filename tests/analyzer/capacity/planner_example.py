"""The four tasks and four nodes that the articles plan, with the four ways to read what they leave open."""

from agent.wire.units import GB
from analyzer.capacity.planner.problem import Duration, Input, Network, Node, Path, Problem, Task

HOUR = 3600


def four_tasks(output_gb: int = 10, path: Path = "direct", cpu_only_avoids_gpus: bool = True) -> Problem:
    """Return the example: T2 and T3 hand on so many GB, over this path; CPU-only may mean to stay off GPU nodes."""
    off = cpu_only_avoids_gpus
    tasks = (
        Task("T1", 8, 32 * GB, Duration.of(3 * HOUR), gpus=1),
        Task("T2", 4, 16 * GB, Duration.of(2 * HOUR), avoids_gpu_nodes=off, inputs=(Input("T1", 10 * GB),)),
        Task("T3", 16, 64 * GB, Duration.of(5 * HOUR), needs_ssd=True),
        Task(
            "T4",
            8,
            32 * GB,
            Duration.of(4 * HOUR),
            avoids_gpu_nodes=off,
            inputs=(Input("T2", output_gb * GB), Input("T3", output_gb * GB)),
        ),
    )
    nodes = (
        Node("gpuA", 16, 128 * GB, gpus=1, hbm_bytes=80 * GB, rack="A"),
        Node("ssdA", 32, 128 * GB, ssd_bytes=2000 * GB, rack="A"),
        Node("cpuA", 16, 64 * GB, rack="A"),
        Node("cpuB", 32, 128 * GB, rack="B"),
    )
    return Problem(tasks, nodes, Network(path=path))
