"""Logs as strangers have them: what tools write beside readings of GPUs is taken for none, and no number is made up."""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collector.errors import FileRefusedError
from collector.importing.log_import import import_log
from collector.importing.log_names import LogHints
from collector.store.database import Store

EIGHT = datetime(2026, 11, 16, 8, tzinfo=UTC)
START = int(EIGHT.timestamp()) * 1_000_000
ROWS = 61


def util(row: int) -> int:
    """Half of the intervals at 0 %, half at 80 %: 40 %."""
    return 0 if row <= ROWS // 2 else 80


def watts(row: int) -> int:
    """Return 100 W, then 300 W: 198.33 W by the trapezoid over sixty intervals."""
    return 100 if row <= ROWS // 2 else 300


RIGHT = (40.0, 11_900.0)  # at a second a row


def stamp(row: int) -> datetime:
    """Return when a row was."""
    return EIGHT + timedelta(seconds=row)


def written(head: str, line: Callable[[int], str]) -> str:
    """Return a log of a head and sixty-one rows."""
    return "\n".join([head, *map(line, range(ROWS)), ""])


def landed(path: Path, start: int | None = START) -> dict[str, tuple[float | None, ...]]:
    """Import a log, and return of each GPU its mean in percent, joules, and MiB in use."""
    with Store.open(None) as store, store.session() as session:
        import_log(store, path, LogHints(), "ws1", start)
        rows = session.rows(
            """
            SELECT gpu_uuid, round(100 * avg(utilization_ratio), 2), round(sum(energy_joules), 1),
                max(memory_used_bytes) / 2**20
            FROM gpu_samples GROUP BY gpu_uuid ORDER BY gpu_uuid
            """
        )
    return {gpu: tuple(values) for gpu, *values in rows}


def kept(tmp_path: Path, name: str, text: str) -> Path:
    """Write a log."""
    (tmp_path / name).write_text(text)
    return tmp_path / name


DMON = """#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem     fb   bar1  sbecc  dbecc    pci  rxpci
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %     MB     MB   errs   errs   errs   MB/s"""


def test_units_that_are_new_to_us_name_no_columns(tmp_path: Path) -> None:
    """`dmon -s pucvmet` counts errs: the line below the names was taken for names, and nothing was read."""
    text = written(
        DMON,
        lambda row: (
            f" {stamp(row):%Y%m%d   %H:%M:%S}      0    {watts(row)}     45      -   {util(row):4d}      5"
            "  30000      3      0      0      0     10"
        ),
    )
    assert landed(kept(tmp_path, "dmon.txt", text)) == {"ws1/gpu0": (*RIGHT, 30_000)}


def test_lines_of_a_page_that_are_of_no_gpu_make_none(tmp_path: Path) -> None:
    """Exporters tell of themselves, of limits and of names: that is one GPU, not two."""

    def page(row: int) -> str:
        return (
            'nvidia_smi_command_exit_code 0\nnvidia_smi_gpu_info{name="NVIDIA A100-SXM4-40GB",uuid="df6e7a7c"} 1\n'
            f'nvidia_smi_utilization_gpu_ratio{{uuid="df6e7a7c"}} {util(row) / 100}\n'
            f'nvidia_smi_power_draw_watts{{uuid="df6e7a7c"}} {watts(row)}\n'
            'nvidia_smi_power_limit_watts{uuid="df6e7a7c"} 400\nprocess_start_time_seconds 1.7e9'
        )

    path = kept(tmp_path, "pages.prom", written("# HELP nvidia_smi_command_exit_code", page))
    assert landed(path) == {"df6e7a7c": (40.0, 15 * 11_900.0, None)}


def taken(path: Path, start: int | None = START) -> tuple[str, ...]:
    """Import a log, and return what was taken for granted."""
    with Store.open(None) as store:
        return import_log(store, path, LogHints(), "ws1", start).assumed


def refused(path: Path) -> str:
    """Return the sentence that refuses a log."""
    with pytest.raises(FileRefusedError) as caught:
        landed(path)
    return str(caught.value)


@pytest.mark.parametrize("apart_ms", [4, 0])
def test_gpus_that_are_not_named_are_told_apart_by_their_rounds(tmp_path: Path, apart_ms: int) -> None:
    """`--query-gpu` without an index writes a line a GPU: as one GPU that would be the last line of each second."""
    text = written(
        "timestamp, utilization.gpu [%], power.draw [W], memory.used [MiB]",
        lambda row: "\n".join(
            f"{stamp(row):%Y/%m/%d %H:%M:%S}.{977 - 900 + gpu * apart_ms:03d}, {use} %, {draw}.00 W, {30_000 + gpu} MiB"
            for gpu, (use, draw) in enumerate([(util(row), watts(row)), (10, 100), (10, 101), (0, 60)])
        ),
    )
    path = kept(tmp_path, "gpu.csv", text)
    assert landed(path) == {
        "ws1/gpu0": (*RIGHT, 30_000),
        "ws1/gpu1": (10, 6_000, 30_001),
        "ws1/gpu2": (10, 6_060, 30_002),
        "ws1/gpu3": (0, 3_600, 30_003),
    }
    assert any("4 rows come at a time" in sentence for sentence in taken(path))


MOSTLY_BUSY = [100, 100, 100, 100, 0]


@pytest.mark.parametrize("index", ["", "0,"])
def test_a_logger_faster_than_its_clock_tells_of_one_gpu(tmp_path: Path, index: str) -> None:
    """Five rows a second with whole seconds are a mean, not the last of them, and not five GPUs."""
    draws = random.Random(7)
    text = written(
        f"time,{'gpu,' if index else ''}util,power",
        lambda row: "\n".join(
            f"{stamp(row):%Y-%m-%d %H:%M:%S},{index}{use},{watts(row)}" for use in draws.sample(MOSTLY_BUSY, 5)
        ),
    )
    path = kept(tmp_path, "fast.csv", text)
    assert landed(path) == {"ws1/gpu0": (80, RIGHT[1], None)}
    assert "rows of one moment are one reading, their mean" in taken(path)


def test_what_processes_hold_of_a_gpu_is_added_up(tmp_path: Path) -> None:
    """Of --query-compute-apps the last process of a second was the GPU."""
    text = written(
        "timestamp, pid, process_name, gpu_uuid, used_gpu_memory [MiB]",
        lambda row: "\n".join(
            f"{stamp(row):%Y/%m/%d %H:%M:%S}.000, {pid}, python, GPU-a, {mib} MiB"
            for pid, mib in ((1, 3000), (2, 1000))
        ),
    )
    assert landed(kept(tmp_path, "apps.csv", text)) == {"GPU-a": (None, None, 4000)}


def test_of_names_that_mean_one_thing_the_plainest_is_read(tmp_path: Path) -> None:
    """The last one of a line was: nvidia-smi's power.draw.instant, and of nvitop the memory of one process."""
    text = written(
        "timestamp, index, power.draw [W], power.draw.average [W], power.draw.instant [W], utilization.gpu [%]",
        lambda row: (
            f"{stamp(row):%Y/%m/%d %H:%M:%S}, 0, {watts(row)} W, {watts(row)} W, {watts(row) + 50} W, {util(row)} %"
        ),
    )
    path = kept(tmp_path, "powers.csv", text)
    assert landed(path) == {"ws1/gpu0": (*RIGHT, None)}
    assert "power.draw.instant [W] is left out, since another column says power_watts too" in taken(path)
    names = (
        "train/timestamp,train/cuda:0 (gpu:3)/gpu_utilization (%)/mean,train/cuda:0 (gpu:3)/power_usage (W)/mean,"
        "train/cuda:0 (gpu:3)/memory_used (MiB)/mean,train/pid:11/cuda:0 (gpu:3)/gpu_memory (MiB)/mean"
    )
    text = written(names, lambda row: f"{stamp(row).timestamp()},{util(row)},{watts(row)},30000,29000")
    assert landed(kept(tmp_path, "nvitop.csv", text), start=None) == {"ws1/gpu3": (*RIGHT, 30_000)}


SIDE_BY_SIDE: dict[str, tuple[str, Callable[[int], str], str]] = {
    "W&B, a chart of two runs": (
        '"Relative Time (Wall)","run-a - system/gpu.0.gpu","run-b - system/gpu.0.gpu"',
        lambda row: f'"{row * 15}","90","10"',
        "it has 2 runs beside one another (run-a, run-b): export one",
    ),
    "metrics of two runs": (
        "run_id,key,value,timestamp,step",
        lambda row: "\n".join(
            f"r{run},system/gpu_0_utilization_percentage,{80 * run},{START // 1000 + row * 1000},{row}"
            for run in (0, 1)
        ),
        "gpu0 is told by runs r0 and r1 at one moment: keep the rows of one",
    ),
    "two hosts, one after the other": (
        "timestamp, index, utilization.gpu [%]",
        lambda row: f"{stamp(row % 30):%Y/%m/%d %H:%M:%S}, 0, {row % 7 + row // 30} %",
        "gpu0 has several readings at one moment, as of several hosts or runs: name the column that tells them apart",
    ),
}


@pytest.mark.parametrize("case", SIDE_BY_SIDE)
def test_what_does_not_tell_runs_or_hosts_apart_is_refused(tmp_path: Path, case: str) -> None:
    """One of them would overwrite the other, or both be one GPU at half the load."""
    head, line, why = SIDE_BY_SIDE[case]
    assert why in refused(kept(tmp_path, "both.csv", written(head, line)))


def test_a_folder_of_several_logs_is_not_its_first(tmp_path: Path) -> None:
    """Three runs of W&B in a folder are no one run."""
    for run in ("run-1", "run-2"):
        (tmp_path / run).mkdir()
        kept(tmp_path / run, "wandb-events.jsonl", "{}")
    assert (
        refused(tmp_path)
        == f"{tmp_path} has 2 logs in it: name one of them, such as {tmp_path}/run-1/wandb-events.jsonl"
    )
    for run in ("r1", "r2"):
        (tmp_path / "mlruns" / run / "system").mkdir(parents=True)
        kept(tmp_path / "mlruns" / run / "system", "gpu_0_utilization_percentage", f"{START // 1000} 5 0\n")
    assert "has 2 logs in it" in refused(tmp_path / "mlruns")


@pytest.mark.parametrize(
    ("unit", "right"), [("°C", (None, None, None)), ("%", (40.0, None, None)), ("W", (None, RIGHT[1], None))]
)
def test_a_unit_beside_a_number_says_what_it_is(tmp_path: Path, unit: str, right: tuple[float | None, ...]) -> None:
    """Grafana writes a GPU's name alone over its temperature: 45 °C were a utilization of 45 %."""
    value = watts if unit == "W" else util
    text = written('"Time","GPU 0"', lambda row: f"{stamp(row):%Y-%m-%d %H:%M:%S},{value(row)} {unit}")
    assert landed(kept(tmp_path, "panel.csv", text)) == {"ws1/gpu0": right}


def test_cells_that_are_no_numbers_are_not_read_up_to_their_first_digits(tmp_path: Path) -> None:
    """A time 13/11/2026 was thirteen seconds, a list of two GPUs nothing, without a word."""
    text = written("timestamp,gpu_util,gpu_power", lambda row: f'{START // 10**6 + row},"[{util(row)}, 10]","[90, 60]"')
    assert "no cell of gpu_util ('[0, 10]'), gpu_power ('[90, 60]') is a number" in refused(
        kept(tmp_path, "l.csv", text)
    )
    night = datetime(2026, 11, 12, 23, 59, 30, tzinfo=UTC)
    text = written(
        "time,gpu,util,power",
        lambda row: f"{night + timedelta(seconds=row):%d/%m/%Y %H:%M:%S},0,{util(row)},{watts(row)}",
    )
    path = kept(tmp_path, "night.csv", text)
    assert landed(path, start=None) == {"ws1/gpu0": (*RIGHT, None)}
    text = text.replace("/11/2026", "/2/2026").replace("12/2", "3/2").replace("13/2", "4/2")
    assert "its dates are month/day/year" in taken(kept(tmp_path, "either.csv", text))


def test_a_card_that_is_called_otherwise_is_a_card(tmp_path: Path) -> None:
    """card0 and card1 were one GPU."""
    text = written("device,GPU use (%)", lambda row: f"card0,{util(row)}\ncard1,10")
    assert landed(kept(tmp_path, "cards.csv", text)) == {"ws1/gpu0": (40, None, None), "ws1/gpu1": (10, None, None)}


def test_energy_that_only_rises_is_a_counter_and_one_that_stands_still_is_rounded(tmp_path: Path) -> None:
    """dcgmi's 2.07e+11 mJ told no joules at all; a column called energy that counts told thirty times as many."""
    text = written(
        "#Entity   GPUTL   POWER   TOTEC\nID   W   mJ",
        lambda row: f"GPU 0     {util(row)}   {watts(row)}.000   {2.07e11 + row * 1e5:.2e}",
    )
    path = kept(tmp_path, "dcgm.txt", text)
    assert landed(path) == {"ws1/gpu0": (*RIGHT, None)}
    assert any("stands still most of the time" in sentence for sentence in taken(path))
    text = written("timestamp,gpu_util,energy_mj", lambda row: f"{START // 10**6 + row},{util(row)},{100_000 * row}")
    assert landed(kept(tmp_path, "rising.csv", text)) == {"ws1/gpu0": (40.0, 6_000.0, None)}


def test_the_power_of_a_board_is_of_none_of_its_instances(tmp_path: Path) -> None:
    """dcgm-exporter tells it for each: two instances would draw what two boards do."""
    labels = [{"Hostname": "h1", "UUID": "GPU-a", "gpu": "0", "GPU_I_ID": str(one)} for one in (1, 2)]
    series: list[dict[str, object]] = [
        {"metric": each | {"__name__": name}, "values": [[START // 10**6 + row, str(value)] for row in range(ROWS)]}
        for each in labels
        for name, value in (("DCGM_FI_DEV_POWER_USAGE", 300), ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5))
    ]
    path = kept(tmp_path, "q.json", json.dumps({"status": "success", "data": {"result": series}}))
    assert landed(path) == {"GPU-a/1": (None, None, None), "GPU-a/2": (None, None, None)}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"status": "error", "error": "parse error"}, "the server answered no data, but parse error"),
        (
            {"status": "success", "data": {"result": [{"metric": {"gpu": "0"}, "values": [[1, "90"], [2, "300"]]}]}},
            "its series have no name and go to 300: ask for a metric as it is, with its name",
        ),
    ],
)
def test_an_answer_of_a_server_that_says_too_little_is_refused(tmp_path: Path, answer: object, why: str) -> None:
    """With what to ask it instead."""
    assert why in refused(kept(tmp_path, "q.json", json.dumps(answer)))


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("<nvidia_smi_log><utilization><gpu_util>80 %</gpu_util></utilization></nvidia_smi_log>", "--query-gpu="),
        (
            "+---+\n| NVIDIA-SMI 550.54.15     Driver Version: 550.54.15     CUDA Version: 12.4 |\n| 80% |",
            "--query-gpu=",
        ),
        (
            "h1  Mon Nov 16 08:00:00 2026\n\x1b[36m[0]\x1b[m A100 | 45°C, \x1b[32m80 %\x1b[m | 9 / 40 MB |",
            "gpustat shows people",
        ),
        ("h1  Mon Nov 16 08:00:00 2026\n[0] NVIDIA A100 | 45°C,  80 % | 30000 / 40960 MB | ann(9M)", "gpustat --json"),
    ],
)
def test_what_is_drawn_for_people_names_what_to_log(tmp_path: Path, text: str, way: str) -> None:
    """A table of boxes has no column to name."""
    assert way in refused(kept(tmp_path, "log.txt", text))


@pytest.mark.parametrize(
    ("column", "scale", "right"),
    [
        ("power (µW)", 1e6, (*RIGHT, None)),
        ("power1_average_uW", 1e6, (*RIGHT, None)),
        ("power_kW", 1e-3, (*RIGHT, None)),
        ("power [MW]", 1e-6, (*RIGHT, None)),
        ("Board Power Draw [W]", 1, (*RIGHT, None)),
        ("Power Consumption [% TDP]", 0.25, (40.0, None, None)),
        ("memory_used [GiB]", 0.25, (40.0, None, 75 * 1024)),
        ("memory_used [kB]", 1024, (40.0, None, 300)),
        ("GPU Memory Allocated (VRAM%)", 0.25, (40.0, None, None)),
    ],
)
def test_a_unit_in_a_name_is_read_as_it_is_written(
    tmp_path: Path, column: str, scale: float, right: tuple[float | None, ...]
) -> None:
    """GiB and kB were taken for MiB, and a microwatt for a milliwatt; what is no unit of ours is not read."""
    text = written(f"time,GPU Core Load [%],{column}", lambda row: f"{stamp(row)},{util(row)},{watts(row) * scale:g}")
    assert landed(kept(tmp_path, "mine.csv", text)) == {"ws1/gpu0": right}


@pytest.mark.parametrize(
    ("column", "joules"),
    [
        ("total_energy_consumption [MJ]", 1e6),
        ("total_energy_consumption [mJ]", 1e-3),
        ("total_energy_MJ", 1e6),
        ("total_energy_consumption [kWh]", 3.6e6),
        ("energy_total_Wh", 3.6e3),
    ],
)
def test_a_counter_of_energy_has_the_unit_that_it_names(tmp_path: Path, column: str, joules: float) -> None:
    """A megajoule is no millijoule, nor is a kilowatt-hour: the run had drawn nothing."""
    text = written(f"time,util,{column}", lambda row: f"{stamp(row)},{util(row)},{(9e6 + 200 * row) / joules:.12g}")
    assert landed(kept(tmp_path, "mine.csv", text)) == {"ws1/gpu0": (40.0, 12_000.0, None)}


@pytest.mark.parametrize(
    ("column", "per_second", "first"), [("timestamp_ns", 1e9, START / 1e6), ("time_relative_ms", 1e3, 0)]
)
def test_a_time_is_read_in_the_unit_of_its_name(tmp_path: Path, column: str, per_second: float, first: float) -> None:
    """Rows five seconds apart were taken to be a second apart."""
    text = written(
        f"{column},util,power_w", lambda row: f"{(first + 5 * row) * per_second:.0f},{util(row)},{watts(row)}"
    )
    assert landed(kept(tmp_path, "mine.csv", text)) == {"ws1/gpu0": (40.0, 5 * 11_900.0, None)}


def test_a_duration_below_zero_is_no_reading_of_its_run(tmp_path: Path) -> None:
    """Public emissions.csv have them where a clock was set: the other runs of the file were refused with it."""
    rows = "2026-11-16T08:10:00,a,-1725969928.7,0.05\n2026-11-16T08:20:00,b,600,0.05\n"
    path = kept(tmp_path, "emissions.csv", f"timestamp,run_id,duration,gpu_energy\n{rows}")
    assert landed(path) == {"ws1/gpu0": (None, 180_000.0, None)}
    assert any("1 of its lines is no reading" in sentence for sentence in taken(path))


def test_what_a_server_warns_of_is_told(tmp_path: Path) -> None:
    """Thanos answers from the stores that are there."""
    series = {
        "metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0"},
        "values": [[1_795_500_000, "9"], [1_795_500_015, "9"]],
    }
    answer = {"status": "success", "warnings": ["store-2 is unavailable"], "data": {"result": [series]}}
    assert "the server warned: store-2 is unavailable" in taken(kept(tmp_path, "q.json", json.dumps(answer)))
