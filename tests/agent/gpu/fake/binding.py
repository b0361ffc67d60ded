"""The unmodified nvidia-ml-py over the fake driver, in a process of its own, asked call by call.

The library is chosen when a process starts, and one that is loaded stays: so never in the tests' own process. Every
question has a thread of its own, since one may hang. A GPU is told as {"gpu": 0}, a part of one as {"part": [0, 2]}.
"""

import ctypes
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[4]


class Refused(Exception):  # noqa: N818  # the word for it
    """The driver answered with a code other than success."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the driver refused with {code}")
        self.code = code


class Binding:
    """The parent's side: what the binding answers, as numbers, texts, lists and dicts of a structure's fields."""

    def __init__(self, library: Path, scenario: Path) -> None:
        environment = {"LD_LIBRARY_PATH": str(library), "GPULEDGER_FAKE_NVML": str(scenario), "PYTHONPATH": str(ROOT)}
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        command = [sys.executable, "-m", "tests.agent.gpu.fake.binding"]
        self._child = subprocess.Popen(command, env=os.environ | environment, cwd=ROOT, **pipes)
        self._asked = 0
        self._answers: dict[int, dict[str, Any]] = {}

    def ask(self, function: str, *arguments: Any) -> Any:
        """Return what a call answers.

        Raises:
            Refused: the driver says why not.
        """
        return self.answer(self.begin(function, *arguments))

    def begin(self, function: str, *arguments: Any) -> int:
        """Ask, and return at once with the number of the question."""
        assert self._child.stdin is not None
        self._asked += 1
        self._child.stdin.write(json.dumps([self._asked, function, *arguments]) + "\n")
        self._child.stdin.flush()
        return self._asked

    def answer(self, number: int) -> Any:
        """Wait for the answer to a question; raises as `ask` does."""
        assert self._child.stdout is not None
        while number not in self._answers:
            line = self._child.stdout.readline()
            assert line, "the process with the fake driver ended without an answer"
            said = json.loads(line)
            self._answers[said.pop("number")] = said
        said = self._answers.pop(number)
        if "refused" in said:
            raise Refused(said["refused"])
        assert "broke" not in said, said["broke"]
        return said["answer"]

    def close(self) -> None:
        """End the process, also where a call still hangs."""
        self._child.kill()
        self._child.communicate()


# ---- the child's side ----


def main() -> None:
    """Answer until the questions end."""
    speaking = threading.Lock()
    for line in sys.stdin:
        number, function, *arguments = json.loads(line)
        threading.Thread(target=_tell, args=(speaking, number, function, arguments), daemon=True).start()


def _tell(speaking: threading.Lock, number: int, function: str, arguments: list[Any]) -> None:
    import pynvml

    try:
        said = {"answer": _plain(_call(function)(*(_argument(each) for each in arguments)))}
    except pynvml.NVMLError as error:
        said = {"refused": error.value}
    except Exception as error:  # noqa: BLE001  # told to the test, which fails with it
        said = {"broke": repr(error)}
    with speaking:
        print(json.dumps({"number": number, **said}), flush=True)


def _call(function: str) -> Callable[..., Any]:
    import pynvml

    own: dict[str, Callable[..., Any]] = {
        "missing": _missing,
        "shapes": _shapes,
        "activity": _activity,
        "events": _events,
    }
    found: Callable[..., Any] = own.get(function) or getattr(pynvml, function)
    return found


def _argument(given: Any) -> Any:
    if isinstance(given, dict):
        return _part(*given["part"]) if "part" in given else _gpu(given["gpu"])
    if isinstance(given, list):
        return [tuple(each) if isinstance(each, list) else each for each in given]
    return given


def _activity(handle: Any, metrics: list[int], instance: int | None = None) -> list[float | None]:
    """Return what GPM makes of two samples, metric by metric."""
    import pynvml

    samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
    for sample in samples:
        if instance is None:
            pynvml.nvmlGpmSampleGet(handle, sample)
        else:
            pynvml.nvmlGpmMigSampleGet(handle, instance, sample)
    question = pynvml.c_nvmlGpmMetricsGet_t()
    question.version, question.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, len(metrics)
    question.sample1, question.sample2 = samples
    for place, metric in enumerate(metrics):
        question.metrics[place].metricId = metric
    pynvml.nvmlGpmMetricsGet(question)
    answers = question.metrics[: len(metrics)]
    return [answer.value if answer.nvmlReturn == pynvml.NVML_SUCCESS else None for answer in answers]


def _events(handle: Any, count: int) -> list[int]:
    """Return the numbers of the next XID errors of a GPU."""
    import pynvml

    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    numbers = [pynvml.nvmlEventSetWait_v2(events, 10_000).eventData for _ in range(count)]
    pynvml.nvmlEventSetFree(events)
    return numbers


@cache
def _gpu(index: int) -> Any:
    """Return a handle, which is kept as agents keep theirs: also when the GPU is lost."""
    import pynvml

    return pynvml.nvmlDeviceGetHandleByIndex(index)


@cache
def _part(index: int, place: int) -> Any:
    import pynvml

    return pynvml.nvmlDeviceGetMigDeviceHandleByIndex(_gpu(index), place)


def _plain(answer: Any) -> Any:
    """Return an answer of the binding as JSON can say it; of a union every member, the asker knows which is meant."""
    if isinstance(answer, (ctypes.Structure, ctypes.Union)):
        return {name: _plain(getattr(answer, name)) for name, *_ in answer._fields_}
    if isinstance(answer, (list, tuple, ctypes.Array)):
        return [_plain(each) for each in answer]
    if isinstance(answer, bytes):
        return answer.decode()
    if isinstance(answer, (str, int, float, bool, type(None))):
        return answer
    if hasattr(answer, "value"):
        return _plain(answer.value)
    said = answer if isinstance(answer, dict) else getattr(answer, "__dict__", {})
    return {name: _plain(value) for name, value in said.items()}


def _library() -> ctypes.CDLL:
    return ctypes.CDLL("libnvidia-ml.so.1")


def _missing(names: list[str]) -> list[str]:
    library = _library()
    return [name for name in names if not hasattr(library, name)]


def _shapes() -> dict[str, tuple[int, int]]:
    """Return of each structure of the library its size and its version word (0 for none)."""
    tell = _library().gpuledger_fake_shape
    tell.restype = ctypes.c_char_p
    size, word = ctypes.c_size_t(), ctypes.c_uint()
    found: dict[str, tuple[int, int]] = {}
    while name := tell(len(found), ctypes.byref(size), ctypes.byref(word)):
        found[name.decode()] = (size.value, word.value)
    return found


if __name__ == "__main__":
    main()
