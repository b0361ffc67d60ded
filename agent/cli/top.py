"""This host from its agent's page alone: `gpuledger agent top` and `gpuledger agent probe`."""

import argparse
import base64
import json
import os
import shutil
import ssl
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path

from agent.clock import Clock
from agent.config import AgentConfig, add_config_option, load, settings_file
from agent.connection import ask, trusting
from agent.errors import AgentError, ConfigError, SourceError
from agent.quantity import in_columns
from agent.sources.service_page import Sample, samples
from agent.wire.units import GIB, SECOND_US

# Ask the agent of this host for its page of metrics.
_PAGE_BYTES_MAX = 8 * 2**20
_SECONDS = 5.0
# Who listens on all addresses is asked on loopback.
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  nothing is bound here
_AGENT_AWAY = "is it running? To read this host without an agent: gpuledger agent --once"


def page(config: AgentConfig) -> str:
    """Return the agent's page, asked for at the address where its settings let it listen.

    Raises:
        ConfigError: it listens nowhere that can be known.
        SourceError: it does not answer, or refuses; the sentence says what to do.
    """
    if config.address is None or config.address[1] == 0:
        raise ConfigError(f"agent.listen is {config.listen}: the agent serves no /metrics page to read")
    host, port = _ANYWHERE.get(config.address[0], config.address[0]), config.address[1]
    where = f"the agent at {host}:{port}"
    name = f"[{host}]" if ":" in host else host
    url = f"{'https' if config.tls_certificate else 'http'}://{name}:{port}/metrics"
    headers = {"Accept": "text/plain", **_authorization(config)}
    try:
        tls = _tls(config.tls_certificate)
        reply = ask(url, headers=headers, timeout_seconds=_SECONDS, most_bytes=_PAGE_BYTES_MAX, tls=tls)
    except OSError as error:
        raise SourceError(f"{where} cannot be reached ({error or type(error).__name__}): {_AGENT_AWAY}") from error
    if reply.status != HTTPStatus.OK:
        raise SourceError(
            f"{where} returned {reply.status}; use --config to name the settings file that has its token or password"
        )
    if not reply.is_whole:
        raise SourceError(f"the page of {where} is larger than {_PAGE_BYTES_MAX} bytes")
    return reply.body.decode("utf-8", "replace")


def _tls(certificate: Path | None) -> ssl.SSLContext | None:
    """Return a context that trusts the agent's own certificate, whatever name it bears: we ask on loopback."""
    if certificate is None:
        return None
    context = trusting(certificate)
    context.check_hostname = False
    return context


def _authorization(config: AgentConfig) -> dict[str, str]:
    if config.scrape_token:
        return {"Authorization": f"Bearer {config.scrape_token}"}
    if config.scrape_user:
        pair = base64.b64encode(f"{config.scrape_user}:{config.scrape_password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {}


_THROTTLES = ("thermal", "hardware", "power", "sync_boost")  # of equal ones the first is told
_GAUGES = ("up", "utilization_ratio", "sm_active_ratio", "memory_used_bytes", "power_watts", "temperature_celsius")
_WANTED = {
    "gpuledger_gpu_info",
    "gpuledger_gpu_run_info",
    "gpuledger_agent_build_info",
    "gpuledger_process_workers",
    "gpuledger_gpu_supported",
    *(f"gpuledger_gpu_{name}" for name in _GAUGES),
    *(f"gpuledger_gpu_throttle_{why}_seconds_total" for why in _THROTTLES),
}


@dataclass(frozen=True, slots=True)
class HoldingRun:
    """A run that holds a GPU. `processes` is its tree there, None where the agent sees none."""

    run_id: str
    name: str
    user: str
    processes: int | None


@dataclass(frozen=True, slots=True)
class GpuNow:
    """One GPU, or one MIG instance."""

    gpu_uuid: str
    index: int | None
    sku: str
    parent_uuid: str
    up: bool | None
    utilization_ratio: float | None
    sm_active_ratio: float | None
    memory_used_bytes: int | None
    power_watts: float | None
    temperature_celsius: float | None
    throttled_seconds: Mapping[str, float]  # by reason, since the agent began
    held: tuple[HoldingRun, ...]
    lists_holders: bool = True  # False: the driver does not say who holds it, so that nobody is not nobody


@dataclass(frozen=True, slots=True)
class HostNow:
    """One reading of one host's agent."""

    node: str
    agent_version: str
    gpus: tuple[GpuNow, ...]


def host_now(text: str) -> HostNow:
    """Return what a page says; pure, and safe on any text."""
    found = samples(text, _WANTED)
    (build,) = found.get("gpuledger_agent_build_info", [])[:1] or [Sample({}, 1)]
    known = {sample.labels.get("gpu_uuid", ""): sample.labels for sample in found.get("gpuledger_gpu_info", ())}
    names = {sample.labels.get("gpu_uuid", "") for sample in found.get("gpuledger_gpu_up", ())} | set(known)
    gpus = [_gpu(one, known.get(one, {}), found) for one in names]
    order = sorted(gpus, key=lambda gpu: (gpu.index is None, gpu.index or 0, gpu.parent_uuid != "", gpu.gpu_uuid))
    return HostNow(build.labels.get("node", ""), build.labels.get("version", ""), tuple(order))


def _gpu(uuid: str, info: Mapping[str, str], found: Mapping[str, list[Sample]]) -> GpuNow:
    def of(name: str) -> float | None:
        values = [each.value for each in found.get(f"gpuledger_gpu_{name}", ()) if each.labels.get("gpu_uuid") == uuid]
        return values[0] if values else None

    index, up, memory = info.get("gpu_index", ""), of("up"), of("memory_used_bytes")
    throttled = {why: of(f"throttle_{why}_seconds_total") for why in _THROTTLES}
    return GpuNow(
        uuid,
        int(index) if index.isdecimal() else None,
        info.get("sku", ""),
        info.get("parent_uuid", ""),
        None if up is None else up > 0,
        of("utilization_ratio"),
        of("sm_active_ratio"),
        None if memory is None else int(memory),
        of("power_watts"),
        of("temperature_celsius"),
        {why: seconds for why, seconds in throttled.items() if seconds is not None},
        _held(uuid, found),
        not any(
            each.labels.get("gpu_uuid") == uuid and each.labels.get("subject") == "processes" and each.value == 0
            for each in found.get("gpuledger_gpu_supported", ())
        ),
    )


def _held(uuid: str, found: Mapping[str, list[Sample]]) -> tuple[HoldingRun, ...]:
    trees = {
        each.labels.get("run_id", ""): int(each.value) + 1  # the workers are below their root
        for each in found.get("gpuledger_process_workers", ())
        if each.labels.get("gpu_uuid") == uuid
    }
    holders = [each.labels for each in found.get("gpuledger_gpu_run_info", ()) if each.labels.get("gpu_uuid") == uuid]
    return tuple(
        HoldingRun(one.get("run_id", ""), one.get("name", ""), one.get("user", ""), trees.get(one.get("run_id", "")))
        for one in sorted(holders, key=lambda one: one.get("run_id", ""))
    )


def throttled(before: GpuNow | None, now: GpuNow, seconds: float) -> tuple[str, float] | None:
    """Return what held a GPU's clock down most between two looks, and for which share of the time.

    None: nothing did, or there is nothing to compare with. Counters that began anew say nothing.
    """
    if before is None or seconds <= 0:
        return None
    grown = [
        (why, (now.throttled_seconds[why] - before.throttled_seconds[why]) / seconds)
        for why in _THROTTLES
        if why in now.throttled_seconds and why in before.throttled_seconds
    ]
    most = max(grown, key=lambda pair: pair[1], default=("", 0.0))
    return (most[0], min(1.0, most[1])) if most[1] > 0 else None


_UNKNOWN = "-"
NARROWEST, _WIDE = 64, 100  # from WIDE on there is room for users
_WORDS = {"thermal": "heat", "hardware": "board", "power": "power", "sync_boost": "peers"}
# Columns and their widths; words stand left (below 0).
_WIDTHS = {"GPU": 3, "UTIL": 4, "SM": 4, "HBM": 5, "W": 4, "C": 3, "NOW": -5, "THROTTLED": -10, "PROCS": 5,
           "USER": -11, "HELD BY": -1}  # fmt: skip
_FOOT = (
    "NOW: lost, busy, or quiet (no kernel in the agent's last seconds). HBM in GiB.",
    "Causes and costs: gpuledger top --node {node} --server URL",
)


def screen(now: HostNow, before: HostNow | None, seconds: float, width: int) -> list[str]:
    """Return the lines; `before` is the look `seconds` earlier, without which no throttling since is known."""
    width = max(NARROWEST, width)
    earlier = {gpu.gpu_uuid: gpu for gpu in before.gpus} if before is not None else {}
    count = sum(not gpu.parent_uuid for gpu in now.gpus)
    title = f"host {_clean(now.node) or _UNKNOWN}   {count} GPU{'s' * (count != 1)}"
    columns = {name: size for name, size in _WIDTHS.items() if name != "USER" or width >= _WIDE}
    split = {gpu.parent_uuid for gpu in now.gpus}
    rows = [{name: name for name in columns}]
    for gpu in now.gpus:
        nobody = "(nobody)" if gpu.lists_holders else "(unknown)"
        rows += _rows(gpu, earlier.get(gpu.gpu_uuid), seconds, "(split)" if gpu.gpu_uuid in split else nobody)
    lines = [f"{title}   agent {_clean(now.agent_version) or _UNKNOWN}", ""]
    lines += [in_columns([row.get(name, "") for name in columns], columns.values()) for row in rows]
    if not now.gpus:
        lines.append("  the agent sees no GPU; to find out why: gpuledger agent doctor")
    foot = [line.format(node=_clean(now.node) or "HOST") for line in _FOOT]
    return [line[:width].rstrip() for line in [*lines, "", *foot]]


def _rows(gpu: GpuNow, before: GpuNow | None, seconds: float, nobody: str) -> list[dict[str, str]]:
    """Return a row for each holder, the first of them with the GPU's own figures."""
    figures = {
        "GPU": _index(gpu),
        "UTIL": _percent(gpu.utilization_ratio),
        "SM": _percent(gpu.sm_active_ratio),
        "HBM": _UNKNOWN if gpu.memory_used_bytes is None else f"{gpu.memory_used_bytes / GIB:.1f}",
        "W": _whole(gpu.power_watts),
        "C": _whole(gpu.temperature_celsius),
        "NOW": state(gpu),
        "THROTTLED": _throttled(before, gpu, seconds),
    }
    first, *others = [_holder(run) for run in gpu.held] or [{"PROCS": _UNKNOWN, "HELD BY": nobody}]
    return [figures | first, *others]


def state(gpu: GpuNow) -> str:
    """Return what can honestly be said of one moment: idle, starved and the like need the ledger's hours."""
    if gpu.up is False:
        return "lost"
    ran = gpu.utilization_ratio if gpu.utilization_ratio is not None else gpu.sm_active_ratio  # the latter of MIG
    return _UNKNOWN if ran is None else "busy" if ran > 0 else "quiet"


def _index(gpu: GpuNow) -> str:
    number = _UNKNOWN if gpu.index is None else str(gpu.index)
    return f"{number}*" if gpu.parent_uuid else number  # a MIG instance bears its GPU's number


def _holder(run: HoldingRun) -> dict[str, str]:
    short = run.run_id.rpartition("/")[2]
    name = f"{run.name} {short}" if run.name and run.name != run.run_id else short
    processes = _UNKNOWN if run.processes is None else str(run.processes)
    return {"PROCS": processes, "USER": _clean(run.user)[:11], "HELD BY": _clean(name)}


def _throttled(before: GpuNow | None, now: GpuNow, seconds: float) -> str:
    if before is None:
        return _UNKNOWN
    most = throttled(before, now, seconds)
    return "" if most is None else f"{_WORDS[most[0]]} {_percent(most[1])}"


def _percent(ratio: float | None) -> str:
    return _UNKNOWN if ratio is None else f"{round(100 * ratio)}%"


def _whole(value: float | None) -> str:
    return _UNKNOWN if value is None else str(round(value))


def _clean(text: str) -> str:
    """Return a name without what would move the cursor: names of jobs are anybody's."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


_EVERY_SECONDS, _LEAST_SECONDS = 5.0, 1.0
_COLUMNS = 80
_HOME, _END_LINE, _END = "\x1b[H", "\x1b[K", "\x1b[J"
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


def top(argv: list[str]) -> int:
    """Show each GPU of this host, what the driver says of it now, and who holds it; until Ctrl-C on a terminal."""
    parser = argparse.ArgumentParser(
        prog="gpuledger agent top",
        description="The GPUs of this host now, from its agent alone: no server, no store, no privileges.",
        epilog="In a pipe or with --once it reads once. For the fleet, with states and prices: gpuledger top.",
    )
    parser.add_argument("--every", type=float, default=_EVERY_SECONDS, metavar="S", help="seconds between refreshes")
    parser.add_argument("--once", action="store_true", help="read once and exit")
    parser.add_argument("--json", action="store_true", help="print JSON, once")
    add_config_option(parser)
    given = parser.parse_args(argv)
    if given.every < _LEAST_SECONDS:
        raise ConfigError(f"--every is {given.every:g}: the minimum is {_LEAST_SECONDS:g} s")
    config = load(settings_file(given.config), os.environ)
    now = host_now(page(config))
    if given.json:
        print(json.dumps(asdict(now), indent=1))
    elif given.once or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        print("\n".join(screen(now, None, 0.0, _COLUMNS)))
    else:
        _watch(config, now, given.every, Clock(), sys.stdout.write)
    return 0


def _watch(config: AgentConfig, now: HostNow, every_seconds: float, clock: Clock, write: Callable[[str], int]) -> None:
    """Draw again and again on the terminal's other screen; what was there before comes back."""
    never, before, began, elapsed, trouble = threading.Event(), None, clock.monotonic(), 0.0, ""
    write(_ENTER)
    try:
        while True:
            columns, rows = shutil.get_terminal_size((_COLUMNS, 24))
            lines = ([f"! {trouble}"] if trouble else []) + screen(now, before, elapsed, columns)
            write(_HOME + "".join(f"{line}{_END_LINE}\r\n" for line in lines[: rows - 1]) + _END)
            sys.stdout.flush()
            clock.wait_until(clock.monotonic() + round(every_seconds * SECOND_US), never)
            try:
                newer = host_now(page(config))
            except SourceError as error:
                trouble = str(error)  # the last look stays under it
                continue
            moment = clock.monotonic()
            before, now, elapsed, began, trouble = now, newer, (moment - began) / SECOND_US, moment, ""
    except KeyboardInterrupt:
        return
    finally:
        write(_LEAVE)
        sys.stdout.flush()


# Ask the agent of these settings, on this host, whether it beats: the health check of its container.
#
# It answers what the last beats read, and leaves out what is older than three of them: a page without its own figures
# is that of an agent whose beat hangs.
OF_EACH_BEAT = "gpuledger_agent_rss_bytes"


def _trouble(config: AgentConfig) -> str | None:
    """Return why the agent is not well; None where it is.

    Raises:
        AgentError: its page cannot be read.
    """
    if samples(page(config), {OF_EACH_BEAT}):
        return None
    return f"the agent responds but has not read its host for three intervals ({config.beat_seconds:g} s each)"


def main(argv: list[str]) -> int:
    """Check that this host's agent takes readings; if not, print why on stderr and exit with 1.

    An agent that serves no /metrics cannot be checked: that is printed, and the exit code is 0.
    """
    parser = argparse.ArgumentParser(prog="gpuledger agent probe", description=main.__doc__)
    add_config_option(parser)
    given = parser.parse_args(argv)
    try:
        config = load(settings_file(given.config), os.environ)
        if config.address is None:
            sys.stderr.write("not checked: agent.listen is off\n")
            return 0
        wrong = _trouble(config)
    except AgentError as error:
        wrong = str(error)
    if wrong is not None:
        sys.stderr.write(f"{wrong}\n")
    return 0 if wrong is None else 1
