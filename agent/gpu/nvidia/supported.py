"""What a GPU tells and what it does not, with a reason that a person understands."""

from collections.abc import Mapping

import pynvml

from agent.gpu.nvidia import rings
from agent.gpu.nvidia.architecture import HOPPER, architecture_name
from agent.gpu.nvidia.gpu import Gpu
from agent.gpu.nvidia.memory import memory_info_v2
from agent.source import Supported

SUBJECTS = (
    "utilization",
    "memory",
    "power",
    "energy",
    "clocks",
    "throttle",
    "activity",
    "pcie",
    "nvlink",
    "xid",
    "ecc",
    "remapped_rows",
    "processes",
    "mig",
)
_IN_MIG_MODE = "the driver has none for a GPU in MIG mode; see activity"


def of_gpu(gpu: Gpu) -> tuple[Supported, ...]:
    """Return what a GPU was found to tell. Asks the driver nothing, and so is safe from any thread."""
    refusals = _refusals(gpu)
    return tuple(_one(gpu.uuid, subject, refusals[subject]) for subject in SUBJECTS)


def nothing(uuid: str, why: str) -> tuple[Supported, ...]:
    """Return that a GPU tells nothing at all now."""
    return tuple(Supported(uuid, subject, False, why) for subject in SUBJECTS)


def _one(uuid: str, subject: str, refusal: str | None) -> Supported:
    return Supported(uuid, subject, refusal is None, refusal or "")


def _refusals(gpu: Gpu) -> Mapping[str, str | None]:
    calls, of = gpu.calls, gpu.instruments
    return {
        "utilization": _all(calls.refusal(rings.UTILIZATION), calls.refusal("nvmlDeviceGetUtilizationRates"))
        and (_IN_MIG_MODE if gpu.mig else calls.refusal(rings.UTILIZATION)),
        "memory": _all(calls.refusal(memory_info_v2.__name__), calls.refusal("nvmlDeviceGetMemoryInfo")),
        "power": of.power.power_refusal,
        "energy": of.power.energy_refusal,
        "clocks": of.clocks.refusal,
        "throttle": of.throttles.refusal,
        "activity": None if of.gpm is not None else _no_gpm(gpu),
        "pcie": None if of.gpm_tells("pcie_receive_bytes") else gpu.around.pcie.refusal(gpu.uuid),
        "nvlink": None if of.gpm_tells("nvlink_receive_bytes") else of.nvlink.refusal,
        "xid": gpu.around.xid.refusal(gpu.uuid),
        "ecc": of.health.ecc_refusal,
        "remapped_rows": of.health.rows_refusal,
        "processes": None if gpu.mig else _processes(gpu),
        "mig": calls.refusal(pynvml.nvmlDeviceGetMigMode.__name__),
    }


def _no_gpm(gpu: Gpu) -> str:
    if gpu.architecture is not None and gpu.architecture < HOPPER:
        return f"GPM needs Hopper or newer; this is {architecture_name(gpu.architecture)}"
    return gpu.calls.refusal("nvmlGpmQueryDeviceSupport") or "the driver says that this GPU has no GPM"


def _processes(gpu: Gpu) -> str | None:
    newest, older = "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"
    return _all(gpu.calls.refusal(newest), gpu.calls.refusal(older))


def _all(*refusals: str | None) -> str | None:
    """Return the first of several refusals where each is one; None where one of the ways works."""
    return refusals[0] if all(refusals) else None
