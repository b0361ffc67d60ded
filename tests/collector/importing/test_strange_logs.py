"""Logs as strangers have them: what tools write beside readings of GPUs is taken for none, and no number is made up."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
