"""Read NVIDIA GPUs. Nothing outside this package imports pynvml."""

from agent.gpu.nvidia.source import NvmlSource, open_nvml
from agent.gpu.nvidia.waiting import WaitingNvml
from agent.wire.sku import sku

__all__ = ["NvmlSource", "WaitingNvml", "open_nvml", "sku"]
