"""The fake driver has the shape of the real one: its functions, its structures, its version words."""

import ast
import ctypes
import importlib.util
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.agent.gpu.fake.binding import Binding
from tests.agent.gpu.fake.build import healthy

ROOT = Path(__file__).parents[3]

# Everything that agents studied for this one call: nvidia-ml-py, gpustat, nvitop, and what a new driver adds.
HOST = (
    "InitWithFlags Shutdown SystemGetDriverVersion SystemGetNVMLVersion SystemGetCudaDriverVersion_v2 "
    "SystemGetProcessName"
)
DEVICE = (
    "Count_v2 HandleByIndex_v2 HandleByUUID UUID Name Index MinorNumber Architecture PciInfo_v3 UtilizationRates "
    "EncoderUtilization DecoderUtilization MemoryInfo MemoryInfo_v2 PowerUsage EnforcedPowerLimit "
    "TotalEnergyConsumption Temperature TemperatureV ClockInfo PerformanceState CurrentClocksEventReasons "
    "CurrentClocksThrottleReasons PcieThroughput CurrPcieLinkGeneration CurrPcieLinkWidth FieldValues Samples "
    "ProcessUtilization ProcessesUtilizationInfo ComputeRunningProcesses_v3 GraphicsRunningProcesses_v3 "
    "MPSComputeRunningProcesses_v3 MigMode MaxMigDeviceCount MigDeviceHandleByIndex GpuInstanceId ComputeInstanceId "
    "DeviceHandleFromMigDeviceHandle Attributes_v2 RemappedRows TotalEccErrors NvLinkState NvLinkRemotePciInfo_v2 "
    "SupportedEventTypes GpuFabricInfoV PlatformInfo"
)
OTHER = (
    "DeviceIsMigDeviceHandle DeviceRegisterEvents EventSetCreate EventSetWait_v2 EventSetFree GpmQueryDeviceSupport "
    "GpmSampleAlloc GpmSampleGet GpmMigSampleGet GpmMetricsGet GpmSampleFree"
)
SYMBOLS = [
    *(f"nvml{name}" for name in HOST.split()),
    *(f"nvmlDeviceGet{name}" for name in DEVICE.split()),
    *(f"nvml{name}" for name in OTHER.split()),
]
# Version words by the binding's name of the structure; GPM's own are plain numbers.
WORDS = {
    "c_nvmlMemory_v2_t": "nvmlMemory_v2",
    "c_nvmlProcessesUtilizationInfo_v1_t": "ProcessesUtilizationInfo_v1",
    "c_nvmlTemperature_v1_t": "nvmlTemperature_v1",
    "c_nvmlGpuFabricInfo_v2_t": "nvmlGpuFabricInfo_v2",
    "c_nvmlPlatformInfo_v2_t": "nvmlPlatformInfo_v2",
}
# As nvml.h of CUDA 13 has them, by hand: the binding and the fake could be wrong together.
SIZES = {
    "c_nvmlFieldValue_t": 40,
    "c_nvmlSample_t": 16,
    "c_nvmlProcessInfo_v2_t": 24,
    "c_nvmlProcessInfo_v3_t": 24,
    "c_nvmlProcessUtilizationSample_t": 32,
    "c_nvmlProcessUtilizationInfo_v1_t": 40,
    "c_nvmlMemory_v2_t": 40,
    "nvmlPciInfo_t": 68,
    "c_nvmlEventData_t": 32,
    "c_nvmlGpmMetric_t": 40,
    "c_nvmlGpmMetricsGet_t": 19_104,
}


@pytest.fixture
def binding(library: Path, tmp_path: Path) -> Generator[Binding, None, None]:
    """Return the binding over a healthy host."""
    binding = Binding(library, healthy(tmp_path / "scenario").path)
    yield binding
    binding.close()


def test_every_function_of_the_reference_is_exported(binding: Binding) -> None:
    """A function that is missing reads as an old driver, and the tests would prove that road alone."""
    assert len(set(SYMBOLS)) == 64
    assert binding.ask("missing", SYMBOLS) == []


def test_every_function_that_the_agent_calls_is_exported(binding: Binding) -> None:
    """What agent/gpu/nvidia asks must be answered here first; the names are read from its source and the binding's."""
    called = {name for path in (ROOT / "agent/gpu/nvidia").glob("*.py") for name in names_used(path)}
    symbols = sorted({symbol for name in called for symbol in symbols_of(name)})
    assert len(symbols) > 30
    assert binding.ask("missing", symbols) == []


def test_structures_have_the_size_that_the_binding_gives_them(binding: Binding) -> None:
    """A structure of another size is read past its end, which no test of values has to notice."""
    import pynvml

    shapes = binding.ask("shapes")
    assert {name: size for name, (size, _) in shapes.items()} == {
        name: ctypes.sizeof(getattr(pynvml, name)) for name in shapes
    }
    assert {name: shapes[name][0] for name in SIZES} == SIZES


def test_version_words_are_the_bindings(binding: Binding) -> None:
    """The real driver refuses a word it does not know; the fake refuses by its own, which must be the same."""
    import pynvml

    words = {name: word for name, (_, word) in binding.ask("shapes").items() if word}
    assert words == {name: getattr(pynvml, constant) for name, constant in WORDS.items()}
    assert (pynvml.NVML_GPM_METRICS_GET_VERSION, pynvml.NVML_GPM_SUPPORT_VERSION) == (1, 1)


def names_used(path: Path) -> Iterator[str]:
    """Yield the functions of the binding that a file of the agent names."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pynvml" and node.attr in binding_source():
            yield node.attr


def symbols_of(name: str) -> set[str]:
    """Return the functions of the library that a function of the binding calls, through other functions of it too."""
    found: set[str] = set()
    for node in ast.walk(binding_source()[name]):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id == "_nvmlGetFunctionPointer" and isinstance(node.args[0], ast.Constant):
            found.add(str(node.args[0].value))
        elif node.func.id in binding_source() and node.func.id != name:
            found |= symbols_of(node.func.id)
    return found


@cache
def binding_source() -> dict[str, ast.FunctionDef]:
    """Return the functions of the installed binding whose names are the driver's."""
    found = importlib.util.find_spec("pynvml")
    assert found is not None
    assert found.origin is not None
    tree = ast.parse(Path(found.origin).read_text("utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[:4] == "nvml"}
