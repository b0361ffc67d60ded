"""Read NVIDIA GPUs. Nothing outside this package imports pynvml."""

from agent.nvml.roster import SECTION as SEEN_GPUS
from agent.nvml.source import NvmlSource, open_nvml
from agent.nvml.waiting import WaitingNvml
from agent.wire.sku import sku

__all__ = ["SEEN_GPUS", "NvmlSource", "WaitingNvml", "open_nvml", "sku"]
