"""Open the GPUs of NVIDIA, now or once their driver is there."""

from functools import partial

from agent.attribution.kernels_gpus import kernels_gpus
from agent.gpu.nvidia.expected_devices import SECTION
from agent.gpu.nvidia.source import NvmlSource, open_nvml
from agent.gpu.nvidia.waiting import WaitingNvml
from agent.gpu.source import GpuHost, GpuSource


def open_nvidia(host: GpuHost) -> GpuSource:
    """Return the source of this host's GPUs, whether their driver answers yet or not.

    Raises:
        DriverChangedError: the GPU library and the loaded driver do not fit.
    """
    made = partial(
        NvmlSource,
        host.sys,
        proc=host.proc,
        state_file=host.state_file,
        expected_gpus=host.expected_gpus,
        hang_seconds=host.hang_seconds,
        process_seconds=host.process_seconds,
        quiet=host.quiet,
        node=host.node,
    )

    def expected() -> int:
        return max(host.expected_gpus, len(host.state_file.section(SECTION)), len(kernels_gpus(host.proc)))

    return WaitingNvml(lambda: open_nvml(made), expected=expected)
