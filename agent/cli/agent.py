"""The commands of the agent: `gpuledger agent`, its `pause`, `resume` and `quiet`, and `gpuledger run`."""

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from agent import log_format
from agent.clock import Clock
from agent.config import SECRETS, AgentConfig, add_config_option, load, settings, settings_file
from agent.control import end_pause, write_pause, write_wish
from agent.daemon.agent import run_for_ever
from agent.daemon.once import read_once, reading_lines
from agent.errors import ConfigError
from agent.quantity import duration, seconds
from agent.run.command import CommandError, Stderr, hold_closed_streams, reports_here, spoken, step_pattern
from agent.run.report import Wanted, profile, report
from agent.run.watch import watch
from agent.sampling.wiring import open_host_sources

WORDS = {
    "pause": "stop reading this host for a while; the time is recorded as not measured",
    "resume": "end a pause",
    "quiet": "stop reading some GPUs for a while, for a benchmark; anyone who holds a GPU may ask for it",
}


def control(argv: list[str]) -> int:
    """Pause this host's agent, end a pause, or ask it to leave GPUs alone."""
    word = argv[0]
    parser = argparse.ArgumentParser(
        prog=f"gpuledger agent {word}", description=f"{WORDS[word][0].upper()}{WORDS[word][1:]}."
    )
    add_config_option(parser)
    if word != "resume":
        parser.add_argument("--for", dest="length", metavar="TIME", required=True, help="how long, for example 2h")
    if word == "pause":
        parser.add_argument("--why", metavar="TEXT", default="", help="reason, for the log and the next operator")
    if word == "quiet":
        parser.add_argument(
            "--gpu", metavar="ID", nargs="+", help="index or UUID; default: those in CUDA_VISIBLE_DEVICES"
        )
    given = parser.parse_args(argv[1:])
    directory = _directory(given.config)
    if word == "resume":
        print("the pause is over" if end_pause(directory) else "the agent was not paused")
    elif word == "pause":
        write_pause(directory, seconds(given.length), given.why)
        print(f"paused for {given.length}; to end it sooner: gpuledger agent resume")
    else:
        gpus = frozenset(given.gpu or filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")))
        path = write_wish(directory, seconds(given.length), gpus)
        whose = "" if os.geteuid() == 0 else ", if a process of yours holds them"
        print(f"quiet for {given.length}: {', '.join(sorted(gpus))}{whose}; to end it sooner: rm {path}")
    return 0


def _directory(named: str | None) -> Path:
    directory = load(settings_file(named), os.environ).control
    if directory is None:
        raise ConfigError(
            "agent.control is empty, so this agent cannot be paused or asked for quiet; set it to a directory"
        )
    return directory


# The commands of the agent: `gpuledger agent` and `gpuledger run`.
_LEAST_EVERY = 0.02  # seconds; the driver's own values change more rarely


def agent(argv: list[str]) -> int:
    """Sample this host: for ever, or once."""
    if argv and argv[0] in WORDS:
        return control(argv)
    given = _parser().parse_args(argv)

    def read() -> AgentConfig:
        return load(settings_file(given.config), os.environ, {name: getattr(given, name) for name in settings()})

    config = read()
    if not given.once and (given.json or given.every):
        raise ConfigError("--json and --every require --once; without it the agent runs until a signal stops it")
    if given.once:
        return _once(config, _every(given.every or "1s"), as_json=given.json)
    return _for_ever(config, read)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuledger agent",
        description="Sample this host, spool what cannot be sent, serve /metrics.",
        epilog="gpuledger agent pause, resume and quiet stop and resume readings; each has its own --help.",
    )
    add_config_option(parser)
    parser.add_argument("--once", action="store_true", help="read once, print the reading and exit; nothing is sent")
    parser.add_argument("--json", action="store_true", help="with --once: print it as JSON, as it would be sent")
    parser.add_argument("--every", metavar="TIME", help="with --once: time between its two readings; default 1s")
    keys = parser.add_argument_group("settings", "each is also a key of [agent] and a GPULEDGER_AGENT_… variable")
    for name, (default, words) in settings().items():
        text = f"{words} ({default})" if default else words
        about = argparse.SUPPRESS if name in SECRETS else text.replace("%", "%%")
        keys.add_argument(f"--{name.replace('_', '-')}", metavar="…", help=about)
    return parser


def _every(given: str) -> float:
    """Return the time between two readings in seconds."""
    every = seconds(given)
    if every < _LEAST_EVERY:
        raise ConfigError(f"--every {given} is too short: the minimum is {_LEAST_EVERY * 1000:g}ms")
    return every


def _once(config: AgentConfig, every_seconds: float, *, as_json: bool) -> int:
    clock = Clock()
    host_sources = open_host_sources(config, clock.wall)
    try:
        reading = read_once(config, host_sources, clock, every_seconds)
    finally:
        host_sources.close()
    print(json.dumps(reading.document(), indent=1) if as_json else "\n".join(reading_lines(reading)))
    return 0


def _for_ever(config: AgentConfig, read_again: Callable[[], AgentConfig]) -> int:
    def read_anew() -> AgentConfig:
        anew = read_again()
        log_format.configure(anew.log_format, anew.log_level)
        return anew

    log_format.configure(config.log_format, config.log_level)
    run_for_ever(config, read_anew, Clock())
    return 0


def run(argv: list[str]) -> int:
    """Run a command, watch it, report on stderr, and return the command's own exit code: 128 + n for a signal.

    Our own failures before it has begun are 2 (usage) and 3 (world); 126 and 127 are a shell's, for no such command.
    """
    hold_closed_streams()
    given = _run_parser().parse_args(argv)
    words = given.command[1:] if given.command[:1] == ["--"] else given.command
    try:
        if not words:
            raise ConfigError("no command to run; write it after two dashes: gpuledger run -- python train.py")
        if not reports_here(os.environ):
            return _become(words)
        return _watched(given, words)
    except CommandError as error:
        print(f"gpuledger: {error}", file=sys.stderr)
        return error.code


def _run_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuledger run",
        usage="gpuledger run [OPTIONS] -- COMMAND [ARGUMENTS]",
        description="Run a command, record the GPUs and this host while it runs, and report where the time went.",
        epilog="The command keeps its own input, output, exit code and signals; gpuledger writes only to stderr.",
    )
    parser.add_argument("--against", metavar="FILE", help="compare with an earlier recording")
    parser.add_argument("--price", metavar="P", help="price per GPU-hour; without it no costs are shown")
    parser.add_argument(
        "--steps-from",
        metavar="RE",
        help="count steps in its output; group 1 of the regular expression is the step number, "
        "a group named wait the seconds that a step waited for data",
    )
    parser.add_argument("--every", metavar="TIME", help="time between readings; default 0.1s with a GPU, else 1s")
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="also write the report to this file: .html, .json, .md (a comment for a pull request) or text",
    )
    parser.add_argument(
        "--profile", metavar="FILE", help="also write a signed capacity profile: .html (and .json) or .json"
    )
    parser.add_argument("--open", action="store_true", help="open the report in a browser when the command ends")
    parser.add_argument("--quiet", action="store_true", help="print nothing; only write the recording")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _become(words: list[str]) -> int:
    try:
        os.execvp(words[0], words)  # noqa: S606  it is what we were asked for
    except OSError as error:
        raise CommandError.of_start(words[0], error) from error


def _watched(given: argparse.Namespace, words: list[str]) -> int:
    stderr = Stderr()

    def say(line: str) -> None:
        if not given.quiet:
            stderr.write(f"gpuledger: {line}\n")

    logging.basicConfig(level=logging.WARNING, format="gpuledger: %(message)s", stream=stderr)
    wanted = Wanted.checked(given.price, given.against, given.report, open_page=given.open, profile=given.profile)
    every = _every(given.every) if given.every else None
    steps = step_pattern(given.steps_from) if given.steps_from else None
    watched = watch(words, _hosts_config(say), os.environ, say, every, steps)
    say(f"{spoken(words)} ended after {duration(watched.seconds)} with exit code {watched.exit_code}")
    if watched.recording is not None:
        if not given.quiet:
            report(watched.recording, wanted, say, stderr.write)
        profile(watched.recording, wanted, say, stderr.write)
    return watched.exit_code


def _hosts_config(say: Callable[[str], None]) -> AgentConfig:
    """Return the host's settings; where they are wrong it is not the command's fault, and it runs without them."""
    try:
        return load(settings_file(None), os.environ)
    except ConfigError as error:
        say(f"the host's settings are not used: {error}")
        return load(None, {})
