"""`gpuledger agent pause`, `resume` and `quiet`."""

import argparse
import os
from pathlib import Path

from agent.control.pausing import end_pause, write_pause
from agent.control.quiet import write_wish
from agent.errors import ConfigError
from agent.quantity import seconds
from agent.settings.config import DEFAULT_FILE, load, settings_file

WORDS = {
    "pause": "let this host be for a while: nothing is read, and the time is booked as not measured",
    "resume": "end a pause",
    "quiet": "let some GPUs be for a while, for a benchmark; whoever holds a GPU may ask that",
}


def control(argv: list[str]) -> int:
    """Pause this host's agent, end a pause, or ask it to leave GPUs alone."""
    word = argv[0]
    parser = argparse.ArgumentParser(
        prog=f"gpuledger agent {word}", description=f"{WORDS[word][0].upper()}{WORDS[word][1:]}."
    )
    parser.add_argument("--config", metavar="FILE", help=f"settings; {DEFAULT_FILE} where it exists")
    if word != "resume":
        parser.add_argument("--for", dest="length", metavar="TIME", required=True, help="how long, like 2h")
    if word == "pause":
        parser.add_argument("--why", metavar="TEXT", default="", help="a word for the log and for who comes next")
    if word == "quiet":
        parser.add_argument("--gpu", metavar="ID", nargs="+", help="index or UUID; those of CUDA_VISIBLE_DEVICES else")
    given = parser.parse_args(argv[1:])
    directory = _directory(given.config)
    if word == "resume":
        print("the pause is over" if end_pause(directory) else "the agent was not paused")
    elif word == "pause":
        write_pause(directory, seconds(given.length), given.why)
        print(f"paused for {given.length}; gpuledger agent resume ends it sooner")
    else:
        gpus = frozenset(given.gpu or filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")))
        path = write_wish(directory, seconds(given.length), gpus)
        whose = "" if os.geteuid() == 0 else ", where a process of yours holds them"
        print(f"asked for {given.length}: {', '.join(sorted(gpus))}{whose}; rm {path} ends it sooner")
    return 0


def _directory(named: str | None) -> Path:
    directory = load(settings_file(named), os.environ).control
    if directory is None:
        raise ConfigError("agent.control is empty, so that this agent cannot be asked; name a directory there")
    return directory
