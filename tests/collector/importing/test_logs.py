"""Logs that people already have are read by one command: their means, joules and seconds are the file's own."""

import gzip
import json
import math
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

import gpuledger
from collector.errors import FileRefusedError
from collector.importing.log_cells import moment
from collector.importing.log_import import import_log
from collector.importing.log_names import LogHints, meaning_of
from collector.importing.logs import read_log
from collector.store.database import Store

DATA = Path(__file__).parents[2] / "data" / "logs"
SECOND = 1_000_000
START = int(datetime(2026, 11, 16, 8, tzinfo=UTC).timestamp()) * SECOND
STAMP = START // SECOND
NAMES = "timestamp,utilization.gpu,utilization.memory,memory.used,memory.free,temperature.gpu,power.draw"


@dataclass(frozen=True)
class Right:
    """What must come of one GPU: its mean in percent (None: unknown), joules and seconds."""

    percent: float | None
    joules: float
    seconds: float


def landed(path: Path, said: LogHints = LogHints(), start: int | None = None) -> list[Right]:  # noqa: B008
    """Import a log, and return what its samples say of each GPU."""
    with Store.open(None) as store, store.session() as session:
        import_log(store, path, said, "ws1", start)
        rows = session.rows(
            """
            SELECT 100 * sum(utilization_ratio * (ended_at - started_at))
                    / sum(ended_at - started_at) FILTER (utilization_ratio IS NOT NULL),
                sum(energy_joules), (max(ended_at) - min(started_at)) / 1e6
            FROM gpu_samples GROUP BY gpu_uuid ORDER BY gpu_uuid
            """
        )
    return [Right(*row) for row in rows]


def check(found: Sequence[Right], right: Sequence[Right], every: float = 1.0) -> None:
    """Compare, as finely as the inputs' page asks."""
    assert len(found) == len(right)
    for one, other in zip(found, right, strict=True):
        assert (one.percent is None) == (other.percent is None)
        if one.percent is not None and other.percent is not None:
            assert one.percent == pytest.approx(other.percent, abs=1)
        assert one.joules == pytest.approx(other.joules, rel=0.01)
        assert one.seconds == pytest.approx(other.seconds, abs=1.5 * every)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("smi_units.csv", [Right(30.2, 11092, 47.1)]),
        ("smi_two_gpus.csv", [Right(28.6, 7926, 35.1), Right(10.3, 4210, 35.1)]),
        ("smi_header_again.csv", [Right(27.7, 10423, 47.1)]),
        ("smi_no_header.csv", [Right(23.2, 15468, 195.3)]),
        ("power_50ms.csv", [Right(None, 233.5, 4.08)]),
        ("mlflow", [Right(24.1, 94227, 470)]),
        ("gpustat.jsonl", [Right(30.6, 18564, 78), Right(6.9, 7804, 78)]),
        ("query_range.json", [Right(25.7, 122714, 585), Right(14.9, 85820, 585)]),
    ],
)
def test_a_log_is_read_by_its_name_alone(name: str, right: list[Right]) -> None:
    """Nothing is said beside it."""
    check(landed(DATA / name), right)


def test_a_log_without_names_or_units_proposes_the_names_to_say(tmp_path: Path) -> None:
    """What is guessed of bare numbers is proposed, and not taken; a file keeps what was said."""
    path = DATA / "smi_no_header_no_units.csv"
    with pytest.raises(FileRefusedError, match=re.escape(f"--columns {NAMES}")):
        landed(path)
    right = [Right(23.2, 15468, 195.3)]
    check(landed(path, LogHints(tuple(NAMES.split(",")))), right)
    (tmp_path / "columns.txt").write_text(NAMES)
    store = str(tmp_path / "s.duckdb")
    assert gpuledger.main(["import", str(path), "--columns", str(tmp_path / "columns.txt"), "--store", store]) == 0


def test_a_log_of_a_lost_gpu_says_what_was_told_and_no_zero() -> None:
    """[N/A], [Not Supported] and [GPU is lost] are unknown."""
    first, second = landed(DATA / "smi_errors.csv")
    check([first], [Right(33.2, 8871, 35.1)])
    assert second.percent == pytest.approx(40.0)
    assert second.seconds == pytest.approx(35.1, abs=1.5)


def test_a_log_without_dates_asks_when_it_began() -> None:
    """Its clock is that of nobody; a line break within quotes is part of a cell."""
    path = DATA / "quoted_line_break.csv"
    with pytest.raises(FileRefusedError, match="has no dates: say when its first row was, --start"):
        landed(path)
    check(landed(path, start=START), [Right(32.5, 1719, 14.9)])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig", "gz"])
def test_a_log_is_read_in_the_encoding_of_its_shell(tmp_path: Path, encoding: str) -> None:
    """PowerShell writes UTF-16 with a mark, and CRLF."""
    text = (DATA / "smi_units.csv").read_text().replace("\n", "\r\n")
    path = tmp_path / ("log.csv.gz" if encoding == "gz" else "log.csv")
    path.write_bytes(gzip.compress(text.encode()) if encoding == "gz" else text.encode(encoding))
    check(landed(path), [Right(30.2, 11092, 47.1)])


def test_codecarbon_tells_of_runs_each_with_its_energy() -> None:
    """24 runs, of which a kilowatt-hour is known and no utilization; rows that were written again count once."""
    with Store.open(None) as store, store.session() as session:
        result = import_log(store, DATA / "emissions.csv", LogHints(), "ws1")
        joules, seconds, known = session.row(
            "SELECT sum(energy_joules), sum(ended_at - started_at) / 1e6, count(utilization_ratio) FROM gpu_samples"
        )
        runs = session.row("SELECT count(DISTINCT run_id) FROM allocations")
    assert (len(result.runs), runs, known) == (24, (24,), 0)
    assert (joules, seconds) == (pytest.approx(1_048_855, rel=1e-6), pytest.approx(3298, abs=1))


def wave(at: int) -> tuple[int, float]:
    """Return percent and watts of a row."""
    percent = round(50 + 49 * math.sin(at / 7))
    return percent, 60 + 6.0 * percent


def right_of(count: int, every: float, *, watts: bool = True) -> Right:
    """Return what `wave` comes to."""
    mean = sum(wave(at)[0] for at in range(1, count)) / (count - 1)
    joules = sum((wave(at)[1] + wave(at + 1)[1]) / 2 * every for at in range(count - 1))
    return Right(mean, joules if watts else 0.0, (count - 1) * every)


def when(at: int, every: int = 1) -> datetime:
    """Return when a row was."""
    return datetime.fromtimestamp(START / SECOND + at * every, UTC)


def dmon(at: int, time: str) -> str:
    """Return a line of dmon."""
    percent, watts = wave(at)
    return f"{time}    0   {watts:.0f}    40     -    {percent}    10     0     0  1593  1980"


def _dmon(times: Callable[[int], str], names: str) -> str:
    head = f"# {names}gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk\n# Idx W C C % % % % MHz MHz\n"
    return head + "".join(dmon(at, times(at)) + "\n" + (head if at == 30 else "") for at in range(60))


def _pmon() -> str:
    lines = [
        "# Date       Time        gpu        pid  type    sm   mem   enc   dec   command",
        "# Idx # C/G % % % % name",
    ]
    for at in range(60):
        percent, _ = wave(at)
        half = percent // 2
        for pid, share in ((100, half), (200, percent - half)):
            lines.append(f" {when(at):%Y%m%d   %H:%M:%S}    0   {pid}     C    {share}    5     -     -   python train")
    return "\n".join(lines)


def _nvitop() -> str:
    rows = []
    for at in range(60):
        percent, watts = wave(at)
        rows.append(
            {
                "resources/timestamp": when(at).timestamp(),
                "resources/duration (s)": float(at),
                "resources/host/cpu_percent (%)/mean": 12.0,
                "resources/cuda:0 (gpu:3)/gpu_utilization (%)/mean": float(percent),
                "resources/cuda:0 (gpu:3)/gpu_utilization (%)/max": 100.0,
                "resources/cuda:0 (gpu:3)/power_usage (W)/mean": watts,
                "resources/cuda:0 (gpu:3)/memory_used (MiB)/mean": 512.0,
            }
        )
    return "\n".join(map(json.dumps, rows))


def _gpustat_indented() -> str:
    return "\n".join(
        json.dumps(
            {
                "hostname": "ws1",
                "query_time": f"{when(at):%Y-%m-%dT%H:%M:%S.%f}",
                "gpus": [
                    {
                        "index": 0,
                        "uuid": "GPU-1",
                        "name": "NVIDIA A100-SXM4-80GB",
                        "temperature.gpu": 40,
                        "utilization.gpu": wave(at)[0],
                        "power.draw": wave(at)[1],
                        "enforced.power.limit": 400,
                        "memory.used": 1024,
                        "memory.total": 81920,
                        "processes": [{"pid": 1}],
                    }
                ],
            },
            indent=4,
        )
        for at in range(60)
    )


def _wandb() -> str:
    return "\n".join(
        json.dumps(
            {
                "_wandb": True,
                "_timestamp": when(at, 15).timestamp(),
                "_runtime": at * 15.0,
                "system.gpu.0.gpu": wave(at)[0],
                "system.gpu.0.powerWatts": wave(at)[1],
                "system.gpu.0.powerPercent": 40.0,
                "system.gpu.0.memory": 3,
                "system.gpu.0.memoryAllocated": 50.0,
                "system.gpu.0.memoryAllocatedBytes": 2**30,
                "system.gpu.process.0.gpu": 99,
                "system.cpu": 50.0,
                "system.gpu.0.temp": 50,
            }
        )
        for at in range(60)
    )


def _zeus() -> str:
    lines = ["start_time,window_name,elapsed_time,gpu0_energy"]
    start = when(0).timestamp()
    for epoch in range(3):
        begin = start + 20 * epoch
        lines += [f"{begin + step * 5},step,5.0,{500.0}" for step in range(4)]
        lines.append(f"{begin},epoch,20.0,{2000.0}")
    return "\n".join(lines)


def _dcgmi() -> str:
    lines = ["#Entity   GPUTL   POWER   SMACT", "ID                  W              "]
    return "\n".join(lines + [f"GPU 0     {wave(at)[0]}      {wave(at)[1]:.3f}    0.250" for at in range(60)])


def _page() -> str:
    labels = 'gpu="0",UUID="GPU-1",modelName="NVIDIA A100-SXM4-80GB",Hostname="ws1"'
    return "".join(
        "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
        f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {wave(at)[0]}\nDCGM_FI_DEV_POWER_USAGE{{{labels}}} {wave(at)[1]}\n"
        for at in range(60)
    )


def _smi(head: str, line: Callable[[int], str]) -> str:
    return "\n".join([head, *(line(at) for at in range(60))])


SHAPES: dict[str, tuple[str, Callable[[], str], Right, LogHints, int | None]] = {
    "dmon -o DT": (
        "log.txt",
        lambda: _dmon(lambda at: f" {when(at):%Y%m%d   %H:%M:%S}", "Date Time "),
        right_of(60, 1),
        LogHints(),
        None,
    ),
    "dmon -o T": (
        "log.txt",
        lambda: _dmon(lambda at: f" {when(at):%H:%M:%S}", "Time "),
        right_of(60, 1),
        LogHints(),
        START,
    ),
    "dmon -d 5": ("log.txt", lambda: _dmon(lambda _: "", ""), right_of(60, 5), LogHints(every=5.0), START),
    "dmon as csv": (
        "log.csv",
        lambda: _smi("#gpu, pwr, gtemp, sm\n#Idx, W, C, %", lambda at: f"0, {wave(at)[1]:.0f}, 40, {wave(at)[0]}"),
        right_of(60, 1),
        LogHints(),
        START,
    ),
    "pmon": ("log.txt", _pmon, right_of(60, 1, watts=False), LogHints(), None),
    "nvitop": ("log.jsonl", _nvitop, right_of(60, 1), LogHints(), None),
    "gpustat over many lines": ("log.json", _gpustat_indented, right_of(60, 1), LogHints(), None),
    "wandb": ("wandb-events.jsonl", _wandb, right_of(60, 15), LogHints(), None),
    "dcgmi dmon": ("log.txt", _dcgmi, right_of(60, 1), LogHints(), START),
    "pages": ("pages.prom", _page, right_of(60, 15), LogHints(), START),
    "smi without units": (
        "log.csv",
        lambda: _smi(
            "timestamp, name, utilization.gpu [%], power.draw [W], memory.used [MiB]",
            lambda at: f"{when(at):%Y/%m/%d %H:%M:%S.000}, NVIDIA L4, {wave(at)[0]}, {wave(at)[1]:.2f}, 512",
        ),
        right_of(60, 1),
        LogHints(),
        None,
    ),
    "smi with semicolons": (
        "log.csv",
        lambda: _smi(
            "timestamp;utilization.gpu [%];power.draw [W]",
            lambda at: f"{when(at):%d.%m.%Y %H:%M:%S};{wave(at)[0]} %;" + f"{wave(at)[1]:.2f} W".replace(".", ","),
        ),
        right_of(60, 1),
        LogHints(),
        None,
    ),
    "smi after words of others, quoted, with old line ends": (
        "log.csv",
        lambda: _smi(
            'nohup: ignoring input\r"timestamp","utilization.gpu [%]","power.draw [W]"',
            lambda at: f'"{when(at):%Y/%m/%d %H:%M:%S.000}","{wave(at)[0]} %","{wave(at)[1]:.2f} W"',
        ).replace("\n", "\r"),
        right_of(60, 1),
        LogHints(),
        None,
    ),
    "a clock past midnight": (
        "log.txt",
        lambda: _dmon(lambda at: f" {when(at + 57_590):%H:%M:%S}", "Time "),
        right_of(60, 1),
        LogHints(),
        START,
    ),
    "wandb as exported": (
        "export.csv",
        lambda: _smi(
            '"Relative Time (Process)","a - system/gpu.0.powerWatts","a - system/gpu.0.gpu","b__MAX"',
            lambda at: f'"{at}","{wave(at)[1]}","{wave(at)[0]}","100"',
        ),
        right_of(60, 1),
        LogHints(),
        START,
    ),
    "mlflow, a metric a row": (
        "metrics.csv",
        lambda: _smi(
            "key,value,timestamp,step",
            lambda at: (
                f"system/gpu_0_utilization_percentage,{wave(at)[0]},{(STAMP + at) * 1000},{at}\n"
                f"system/gpu_0_power_usage_watts,{wave(at)[1]},{(STAMP + at) * 1000 + 7},{at}"
            ),
        ),
        right_of(60, 1),
        LogHints(),
        None,
    ),
    "a metric a row, with its unit": (
        "long.csv",
        lambda: _smi(
            "time,host,gpu,metric,value,unit",
            lambda at: (
                f"{when(at).isoformat()},ws1,0,utilization,{wave(at)[0] / 100},ratio\n"
                f"{when(at).isoformat()},ws1,0,power,{wave(at)[1] * 1000:.0f},mW\n"
                f"{when(at).isoformat()},ws1,0,fan_speed,30,%"
            ),
        ),
        right_of(60, 1),
        LogHints(),
        None,
    ),
    "InfluxDB, a field a row": (
        "query.csv",
        lambda: _smi(
            "#group,false,false,false,false,true,true,true\n#default,_result,,,,,,\n"
            ",result,table,_time,_value,_field,_measurement,index",
            lambda at: (
                f",,0,{when(at):%Y-%m-%dT%H:%M:%SZ},{wave(at)[0]},utilization_gpu,nvidia_smi,0\n"
                f",,1,{when(at):%Y-%m-%dT%H:%M:%SZ},{wave(at)[1]},power_draw,nvidia_smi,0"
            ),
        ),
        right_of(60, 1),
        LogHints(),
        None,
    ),
    "Grafana, a series a row": (
        "panel.csv",
        lambda: _smi(
            "Series;Time;Value",
            lambda at: (
                f'"DCGM_FI_DEV_GPU_UTIL{{gpu=""0""}}";{when(at):%Y-%m-%d %H:%M:%S};{wave(at)[0]}\n'
                f'"DCGM_FI_DEV_POWER_USAGE{{gpu=""0""}}";{when(at):%Y-%m-%d %H:%M:%S};{wave(at)[1]}'
            ),
        ),
        right_of(60, 1),
        LogHints(),
        None,
    ),
    "nvitop's devices": (
        "devices.jsonl",
        lambda: _smi(
            "",
            lambda at: json.dumps(
                {
                    "timestamp": STAMP + at,
                    "devices": [
                        {
                            "index": 0,
                            "gpu_utilization": wave(at)[0],
                            "power_usage": 1000 * round(wave(at)[1]),
                            "memory_used": 2**30,
                        }
                    ],
                }
            ),
        ),
        right_of(60, 1),
        LogHints(),
        None,
    ),
    "a table of milliseconds and gigabytes": (
        "mine.tsv",
        lambda: _smi(
            "elapsed_ms\tgpu0_util\tgpu0_power_w\tgpu0_mem_gb",
            lambda at: f"{at * 1000}\t{wave(at)[0]}\t{wave(at)[1]}\t12.5",
        ),
        right_of(60, 1),
        LogHints(),
        START,
    ),
    "a table in ratios and milliwatts": (
        "mine.csv",
        lambda: _smi("time,gpu_util,power_mw", lambda at: f"{STAMP + at},{wave(at)[0] / 100},{wave(at)[1] * 1000}"),
        right_of(60, 1),
        LogHints(),
        None,
    ),
    "a table in bare milliwatts": (
        "mine.csv",
        lambda: _smi("time,util,power", lambda at: f"{when(at).isoformat()},{wave(at)[0]},{wave(at)[1] * 1000:.0f}"),
        right_of(60, 1),
        LogHints(),
        None,
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_kinds_of_logs_come_to_the_files_own_figures(tmp_path: Path, shape: str) -> None:
    """Mean, joules and seconds, whatever tool wrote it and in which of its shapes."""
    name, text, right, said, start = SHAPES[shape]
    path = tmp_path / name
    path.write_text(text())
    (found,) = landed(path, said, start)
    joules = found.joules if found.joules is not None else 0.0
    check([Right(found.percent, joules, found.seconds)], [right], right.seconds / 59)


def _export() -> str:
    """Return what VictoriaMetrics exports: a series a line, with its times in milliseconds."""
    labels = {"gpu": "0", "UUID": "GPU-1", "Hostname": "ws1"}
    times = [(STAMP + 15 * at) * 1000 for at in range(60)]
    names = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE")
    values = [[wave(at)[place] for at in range(60)] for place in range(2)]
    series = [
        {"metric": {"__name__": name} | labels, "values": v, "timestamps": times}
        for name, v in zip(names, values, strict=True)
    ]
    return "".join(json.dumps(one) + "\n" for one in series)


def test_an_export_of_victoriametrics_is_read(tmp_path: Path) -> None:
    """It is what somebody has who was to send a day of metrics; one series may end before another."""
    (tmp_path / "export.jsonl").write_text(_export())
    check(landed(tmp_path / "export.jsonl"), [right_of(60, 15)], 15)


def test_a_table_of_grafana_has_its_gpus_in_its_columns(tmp_path: Path) -> None:
    """GPUs of one number on two hosts are two."""
    legends = [
        f'"DCGM_FI_DEV_{name}{{gpu=""0"", Hostname=""{host}""}}"'
        for host in "ab"
        for name in ("GPU_UTIL", "POWER_USAGE")
    ]
    rows = [
        f"{when(15 * at):%Y-%m-%d %H:%M:%S},{wave(at)[0]},{wave(at)[1]},{wave(at + 1)[0]},{wave(at + 1)[1]}"
        for at in range(60)
    ]
    (tmp_path / "panel.csv").write_text("\n".join([",".join(['"Time"', *legends]), *rows]))
    log = read_log(tmp_path / "panel.csv")
    assert sorted(host for host, _ in log.gpus) == ["a", "b"]
    found = [[each["utilization_ratio"] for each in gpu.readings.values()] for gpu in log.gpus.values()]
    assert found == [[pytest.approx(wave(at + ahead)[0] / 100) for at in range(60)] for ahead in range(2)]


def test_shares_that_dcgm_tells_from_0_to_1_are_no_percent(tmp_path: Path) -> None:
    """Read as percent they would be a hundredth: a GPU that works would be idle."""
    lines = ["#Entity   SMACT   SMOCC   TENSO   DRAMA   GPUTL", "ID"]
    (tmp_path / "log.txt").write_text("\n".join([*lines, *["GPU 0     0.610   0.300   0.250   0.400   50"] * 5]))
    with Store.open(None) as store, store.session() as session:
        import_log(store, tmp_path / "log.txt", LogHints(), "ws1", START)
        columns = "sm_active_ratio, sm_occupancy_ratio, tensor_active_ratio, dram_active_ratio, utilization_ratio"
        assert session.rows(f"SELECT DISTINCT {columns} FROM gpu_samples") == [(0.61, 0.3, 0.25, 0.4, 0.5)]


def test_a_column_that_means_nothing_here_is_said(tmp_path: Path) -> None:
    """Who looks for their clocks must not take their absence for a reading; a unit in the name is read."""
    rows = [f"2026-11-16T08:00:{at:02},0,0.5,0.3,7" for at in range(60)]
    (tmp_path / "own.csv").write_text("\n".join(["time,gpu,util,power_kw,wobble", *rows]))
    log = read_log(tmp_path / "own.csv")
    assert "wobble of it is not read: what that means is not known" in log.assumed
    assert {reading["power_watts"] for gpu in log.gpus.values() for reading in gpu.readings.values()} == {300.0}


def test_windows_of_zeus_within_another_are_part_of_it(tmp_path: Path) -> None:
    """An epoch's joules have those of its steps in them."""
    path = tmp_path / "zeus.csv"
    path.write_text(_zeus())
    check(landed(path), [Right(None, 6000, 60)])


@pytest.mark.parametrize("compressed", [False, True])
def test_an_archive_of_clustercockpit_is_the_job_that_it_names(tmp_path: Path, compressed: bool) -> None:
    """Its accelerators are series of their own, and meta.json has whose it was."""
    unit = {"acc_utilization": {"base": "%"}, "acc_power": {"base": "W"}, "acc_mem_used": {"base": "B", "prefix": "M"}}
    values = {"acc_utilization": 0, "acc_power": 1}
    data = {
        metric: {
            "accelerator": {
                "unit": unit[metric],
                "timestep": 60,
                "series": [
                    {
                        "hostname": "n1",
                        "id": f"0000{gpu}:49:00.0",
                        "data": [wave(at)[values[metric]] if metric in values else 900.0 for at in range(30)],
                    }
                    for gpu in range(2)
                ],
            }
        }
        for metric in unit
    }
    text = json.dumps(data | {"cpu_load": {"node": {"unit": {"base": ""}, "timestep": 60, "series": []}}}).encode()
    (tmp_path / ("data.json.gz" if compressed else "data.json")).write_bytes(
        gzip.compress(text) if compressed else text
    )
    meta = {"jobId": 398998, "cluster": "alpha", "user": "ann", "startTime": START // SECOND, "duration": 1740}
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    check(landed(tmp_path), [right_of(30, 60)] * 2, 60)
    with Store.open(None) as store, store.session() as session:
        import_log(store, tmp_path, LogHints())
        assert session.rows('SELECT DISTINCT run_id, "user", node FROM allocations') == [
            ("slurm/alpha/398998", "ann", "n1")
        ]


@pytest.mark.parametrize("base_ns", [0, START * 1000])
def test_a_trace_of_kineto_is_busy_where_any_kernel_was(tmp_path: Path, base_ns: int) -> None:
    """Kernels that ran side by side count once; copies keep no kernel busy."""
    events = []
    for at in range(100):
        begin = at * 20_000.0
        events += [
            {"ph": "X", "cat": "kernel", "name": "gemm", "ts": begin, "dur": 6_000, "args": {"device": 0}},
            {"ph": "X", "cat": "kernel", "name": "relu", "ts": begin + 3_000, "dur": 5_000, "args": {"device": 0}},
            {"ph": "X", "cat": "gpu_memcpy", "name": "HtoD", "ts": begin + 15_000, "dur": 4_000, "args": {"device": 0}},
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": begin, "dur": 20_000},
        ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"baseTimeNanoseconds": base_ns, "traceEvents": events}))
    (found,) = landed(path, start=None if base_ns else START)
    assert found.percent == pytest.approx(40, abs=0.5)
    assert found.seconds == pytest.approx(2.0, abs=0.05)


def test_a_summary_of_dlio_is_how_its_accelerators_worked_by_epoch(tmp_path: Path) -> None:
    """Two emulated accelerators, two epochs."""
    summary = {
        "start": "2026-11-16T08:00:00.5",
        "end": "2026-11-16T08:10:00.5",
        "num_accelerators": 2,
        "epochs": 2,
        "metric": {"train_au_percentage": [60.0, 98.0], "train_au_mean_percentage": 79.0},
    }
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    with Store.open(None) as store, store.session() as session:
        import_log(store, tmp_path, LogHints(), "ws1")
        rows = session.rows(
            "SELECT gpu_uuid, avg(utilization_ratio), count(energy_joules) FROM gpu_samples GROUP BY ALL"
        )
    assert sorted(rows) == [("ws1/gpu0", pytest.approx(0.79), 0), ("ws1/gpu1", pytest.approx(0.79), 0)]


def test_a_cut_line_is_left_out_and_said(tmp_path: Path) -> None:
    """What a logger was writing when it was killed is no reading: 40 W of 400."""
    lines = (DATA / "smi_units.csv").read_text().splitlines()
    for cut in (3, 20, 90, len(lines[-1]) - 3):
        path = tmp_path / f"{cut}.csv"
        path.write_text("\n".join([*lines[:-1], lines[-1][:cut]]))
        with Store.open(None) as store:
            result = import_log(store, path, LogHints(), "ws1")
        assert (result.landed, result.rejected) == (46, 0), cut
        assert "what it says on 1 of its lines is no reading: cut off, or of something else" in result.assumed


def test_a_log_whose_column_is_in_another_unit_again_and_again_is_refused(tmp_path: Path) -> None:
    """Its name says watts, and nobody draws a megawatt: the rest of the rows would be no log of anything."""
    path = tmp_path / "log.csv"
    path.write_text(_smi("timestamp, power.draw [W]", lambda at: f"{when(at).isoformat()}, {(at + 9) * 1e5:.0f} W"))
    with pytest.raises(FileRefusedError, match=r"power_watts is outside .* in 58 of 59 rows: name its columns"):
        landed(path)


def test_a_log_that_stopped_says_nothing_of_the_time_between(tmp_path: Path) -> None:
    """An hour without a row is not an hour at the power of its ends."""
    rows = [f"{when(at if at < 30 else at + 3600):%Y/%m/%d %H:%M:%S}, 50 %, 300 W" for at in range(60)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["timestamp, utilization.gpu [%], power.draw [W]", *rows]))
    (found,) = landed(path)
    assert found.joules == pytest.approx(58 * 300)


LEDGER = ("ledger", "energy_amounts", "activity_amounts", "runs", "run_gpus", "run_timeline")


def ledgers_of(store: Path, files: Mapping[str, Sequence[Path]]) -> dict[str, list[tuple[object, ...]]]:
    """Import the files of each host one after another, analyze, and return the ledger of each, without its name."""
    for host, each in files.items():
        for file in each:
            assert gpuledger.main(["import", str(file), "--node", host, "--store", str(store)]) == 0
    assert gpuledger.main(["admin", "analyze", "--store", str(store)]) == 0
    found: dict[str, list[tuple[object, ...]]] = {host: [] for host in files}
    with Store.open(store, read_only=True) as opened, opened.session() as session:
        for table in LEDGER:
            for row in session.rows(f"FROM {table} ORDER BY ALL"):
                (host,) = [host for host in files if host in repr(row)]
                own = (cell.replace(host, "") if isinstance(cell, str) else cell for cell in row)
                found[host].append((table, *own))
    return found


def test_half_a_log_and_then_the_whole_is_the_whole(tmp_path: Path) -> None:
    """However it lands: the first half or the last before, twice, with lines in any order."""
    lines = (DATA / "smi_two_gpus.csv").read_text().splitlines()
    shapes = {"half": lines[:40], "end": [lines[0], *lines[30:]], "whole": lines, "mixed": [lines[0], *lines[:0:-1]]}
    files = {}
    for name, each in shapes.items():
        (tmp_path / name).mkdir()
        files[name] = tmp_path / name / "gpu_log.csv"
        files[name].write_text("\n".join(each) + "\n")
    orders = {
        "once": ("whole",),
        "grown": ("half", "whole"),
        "late": ("end", "whole"),
        "over": ("half", "end", "mixed"),
    }
    landed_as = {f"host-{name}": [files[each] for each in order] for name, order in orders.items()}
    found = ledgers_of(tmp_path / "s.duckdb", landed_as)
    right = found["host-once"]
    assert {row[0] for row in right} == set(LEDGER)
    assert {host: rows for host, rows in found.items() if rows != right} == {}


def test_a_log_is_no_run_where_the_store_knows_who_held_the_gpu(tmp_path: Path) -> None:
    """A scheduler's word stands."""
    allocation = tmp_path / "allocations.csv"
    span = f"{START - SECOND},{START + 3600 * SECOND}"
    allocation.write_text(f"node,gpu_uuid,run_id,started_at,ended_at\nws1,ws1/gpu0,slurm/a/1,{span}\n")
    store = str(tmp_path / "s.duckdb")
    assert (
        gpuledger.main(["import", str(allocation), str(DATA / "smi_units.csv"), "--node", "ws1", "--store", store]) == 0
    )
    with Store.open(Path(store), read_only=True) as opened, opened.session() as session:
        assert session.rows("SELECT DISTINCT run_id FROM allocations") == [("slurm/a/1",)]


def test_one_command_answers_and_says_what_it_took_for_granted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log is somebody's work: nothing of it is a free GPU."""
    monkeypatch.chdir(shutil.copytree(DATA, tmp_path / "logs"))
    assert gpuledger.main(["report", "smi_units.csv"]) == 0
    out = capsys.readouterr()
    assert "47 s" in out.out and "it worked 30.2% of its GPU time" in out.out  # noqa: PT018
    assert "unallocated" not in out.out
    for sentence in ("its times are UTC", "its host is unknown-host", "all of it is one run", "is not known"):
        assert sentence in out.err
    for name in ("quoted_line_break.csv", "mlflow", "emissions.csv"):
        assert gpuledger.main(["report", name]) == 0
    assert "it has no dates" in capsys.readouterr().err


def test_a_table_that_is_no_log_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """A person's own table is read by the names that are said."""
    path = tmp_path / "mine.csv"
    path.write_text(
        "a,b,c\n" + "".join(f"{when(at).isoformat()},{wave(at)[0]},{wave(at)[1]:.1f}\n" for at in range(60))
    )
    with pytest.raises(FileRefusedError, match=r"--columns timestamp,index,utilization\.gpu,power\.draw"):
        landed(path)
    check(landed(path, LogHints(("timestamp", "utilization.gpu", "power.draw"))), [right_of(60, 1)])


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2026/11/16 08:00:00.195", START + 195_000),
        ("2026-11-16T08:00:00+01:00", START - 3600 * SECOND),
        ("2026-11-16 08:00:00 UTC", START),
        ("20261116 08:00:00", START),
        ("11/16/2026 08:00:00", START),
        ("16.11.2026 08:00:00", START),
        ("Mon Nov 16 08:00:00 2026", START),
        (str(START // SECOND), START),
        (str(START // 1000), START),
        (str(START), START),
        (str(START * 1000), START),
        ("2026-02-31 08:00:00", None),
        ("12.5", None),
        ("N/A", None),
    ],
)
def test_times_are_read_as_loggers_spell_them(text: str, micros: int | None) -> None:
    """Dates of tools, and epochs in seconds, milliseconds, microseconds and nanoseconds."""
    assert moment(text) == micros


@pytest.mark.parametrize(
    ("name", "column", "gpu", "factor"),
    [
        ("utilization.gpu [%]", "utilization_ratio", None, 0.01),
        ("power.draw.instant [W]", "power_watts", None, 1.0),
        ("memory.used [MiB]", "memory_used_bytes", None, 2**20),
        ("clocks.current.sm [MHz]", "sm_clock_hertz", None, 1e6),
        ("system.gpu.1.powerWatts", "power_watts", "1", 1.0),
        ("system.gpu.1.gpu", "utilization_ratio", "1", 0.01),
        ("gpu_0_memory_usage_megabytes", "memory_used_bytes", "0", 1e6),
        ("gpu_2_utilization_percentage", "utilization_ratio", "2", 0.01),
        ("metrics-daemon/cuda:0 (gpu:3)/power_usage (W)/mean", "power_watts", "3", 1.0),
        ("DCGM_FI_DEV_GPU_UTIL", "utilization_ratio", None, 0.01),
        ("gpu0_energy", "energy_joules", "0", 1.0),
        ("gpu_util_pct", "utilization_ratio", None, 0.01),
    ],
)
def test_names_of_columns_mean_one_thing(name: str, column: str, gpu: str | None, factor: float) -> None:
    """As their tools write them."""
    found = meaning_of(name)
    assert found is not None
    assert (found.column, found.gpu) == (column, gpu)
    assert found.factor == pytest.approx(factor)


@pytest.mark.parametrize(
    "name",
    ["system.gpu.0.powerPercent", "gpu_0_memory_usage_percentage", "power.limit [W]", "system.cpu", "fan.speed [%]"],
)
def test_what_is_no_column_of_ours_is_left_alone(name: str) -> None:
    """A limit is no draw, and a share of memory no bytes."""
    assert meaning_of(name) is None
