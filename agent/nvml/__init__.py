"""Read NVIDIA GPUs. Nothing outside this package imports pynvml."""

from agent.nvml.processes import GpuProcess
from agent.nvml.sku import sku
from agent.nvml.source import NvmlSource, open_nvml

__all__ = ["GpuProcess", "NvmlSource", "open_nvml", "sku"]
