"""`gpuledger capacity profile`, `gpuledger capacity profile verify` and `gpuledger capacity profile key`."""

import argparse
import os
import urllib.parse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from analyzer.capacity.gate.request import read_requests
from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.errors import ConfigError, LedgerError, ProfileError
from analyzer.ledger.believed import believing
from analyzer.period import Period
from analyzer.text.words import plain

if TYPE_CHECKING:
    from analyzer.capacity.profile.page import Ready
    from analyzer.recommendations.recommendation import Recommendation
    from analyzer.settings.settings import Settings

_OK, _NOT_TRUSTED = 0, 1
_DEFAULT_OUT = Path("profile.html")
_PATH = "/v1/capacity-profile"
_ALONE = "Self-measured by gpuledger run on one host: what the team has elsewhere, and what is free, is not known."
_CHOSEN = "the one command that was watched"
_CUT_OFF = "The watching was cut off before the command had ended."
_ONE_THREAD = 1  # what is read is small: a second thread spins more than it reads


def profile(argv: list[str]) -> int:
    """What a team's GPUs really do, as one signed file: a page that a ticket takes, with its JSON within and beside it.

    Name the runs that stand for the work that more GPUs are wanted for; without them the team's largest of the period
    are taken, and the profile says so. Nothing in it is a verdict: gpuledger capacity request reads it. The page
    prints as PDF; --format text shows its first page here.
    """
    from analyzer.capacity.profile.page import FORMS
    from analyzer.interfaces.cli.command import add_place, is_ascii, width_of, write
    from analyzer.text.layout import TextLayout

    parser = argparse.ArgumentParser(prog="gpuledger capacity profile", description=profile.__doc__)
    parser.add_argument("--team", metavar="NAME", help="whose work; may be left out where --runs says it")
    parser.add_argument("--project", metavar="NAME", help="of this project alone")
    parser.add_argument("--request", type=Path, metavar="FILE", help="team and runs of this capacity request's file")
    parser.add_argument("--runs", metavar="RUN,RUN", default="", help="ids, unique ends of them, or names; with commas")
    parser.add_argument(
        "--since", metavar="WHEN", help="7d, 2026-11-09, 2026-W46 (default: the runs' hours, or a week)"
    )
    parser.add_argument("--until", metavar="WHEN", help="the end; a day or a week is included")
    parser.add_argument(
        "--recording", type=Path, metavar="FILE", help="of a recording of gpuledger run; no store needed"
    )
    parser.add_argument("--price", metavar="P", help="of a recording: price of a GPU-hour; none is guessed")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--out", type=Path, metavar="FILE", help=".html or .txt (and .json), or .json alone")
    form.add_argument("--format", choices=("text", "json", "html"), help="print it, and write no file; text: page one")
    form.add_argument("--json", action="store_const", const="json", dest="format", help="short for --format json")
    parser.add_argument("--width", type=int, metavar="N", help="columns of text (default: the terminal's, at most 80)")
    parser.add_argument("--plain", action="store_true", help="ASCII and no color, as in a pipe")
    parser.add_argument(
        "--key", type=Path, metavar="FILE", help="sign with this key (default: profile_key, or one made)"
    )
    add_place(parser)
    options = parser.parse_args(argv)
    runs = tuple(part.strip() for part in options.runs.split(",") if part.strip())
    if options.request is not None:
        if options.team or runs or options.recording is not None:
            raise ConfigError("--request says team and runs: leave --team, --runs and --recording out")
        asked, _ = read_requests(options.request)[0]
        options.team, runs = asked.team, asked.work
    if options.recording is not None:
        _refuse_beside_recording(options, runs)
    elif options.price is not None:
        raise ConfigError("--price is of --recording: the ledger has its prices from the price file")
    elif not (options.team or options.project or runs):
        raise ConfigError("say of whom: --team, --project, --runs or --request")
    if options.out is not None and options.out.suffix not in FORMS:
        raise ConfigError(f"--out {options.out} ends with neither .html, .txt nor .json")
    ready = _ready(options, runs)
    if options.format:
        write(ready.form(options.format, TextLayout(width_of(options.width), is_ascii(options))), options)
    else:
        print(f"{ready.write(options.out or _DEFAULT_OUT)}: {plain(ready.envelope.profile.chosen)}")
    return _OK


def verify(argv: list[str]) -> int:
    """Say whose profile a file is and whether it was edited since; no store and no network is needed.

    Exit code 0 where it was signed by a key of --keys and nothing was changed, the words of a page included; else 1.
    """
    from analyzer.capacity.profile.signature import read_profile, read_trusted

    parser = argparse.ArgumentParser(prog="gpuledger capacity profile verify", description=verify.__doc__)
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="the .json or .html that gpuledger capacity profile wrote"
    )
    parser.add_argument("--keys", type=Path, metavar="FILE", help="TOML with a [[key]] for each: name, public_key, by")
    options = parser.parse_args(argv)
    trusted = read_trusted(options.keys) if options.keys else ()
    try:
        read = read_profile(options.file, trusted)
    except ProfileError as error:
        print(f"not valid: {error}")
        return _NOT_TRUSTED
    around = {
        "unsigned": "; the words of the page around it are signed by nobody: take the figures of its JSON",
        "edited": "; the words of the page around it were edited: take the figures of its JSON, or ask for the file",
    }.get(read.page, "")
    is_valid = read.valid and not around
    print(f"{'valid' if is_valid else 'not valid'}: {read.sentence}{around}\nsha256 {read.sha256}")
    return _OK if is_valid else _NOT_TRUSTED


def key(argv: list[str]) -> int:
    """Print the public key that profiles are signed with here, as an entry for the list of trusted ones.

    The key is made where there is none yet, readable by its owner alone. It never leaves this machine: what is printed
    is its public half.
    """
    from analyzer.capacity.profile.signature import key_at, key_id, of_user, public_text

    parser = argparse.ArgumentParser(prog="gpuledger capacity profile key", description=key.__doc__)
    parser.add_argument("--run", action="store_true", help="the key of your own gpuledger run --profile, not a store's")
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")
    options = parser.parse_args(argv)
    if options.run:
        path, name = of_user(os.environ), "my runs"
    else:
        from analyzer.settings.settings import site_of

        config, settings = site_of(options.store, options.config)
        path, name = _key_path(settings, config.store), settings.cluster
    public = public_text(key_at(path).public_key())
    by = "run" if options.run else "collector"
    quoted = plain(name).replace("\\", "").replace('"', "")
    print(f'# key {key_id(public)}, kept in {path}\n[[key]]\nname = "{quoted}"\npublic_key = "{public}"\nby = "{by}"')
    return _OK


def _key_path(settings: "Settings", store: Path) -> Path:
    """Return where the key of a store's collector lies."""
    from analyzer.capacity.profile.signature import default_key_path

    return settings.profile_key or default_key_path(store)


def _ready(options: argparse.Namespace, runs: tuple[str, ...]) -> "Ready":
    if options.recording is not None:
        return _from_recording(options)
    return _from_server(options, runs) if options.server else _from_store(options, runs)


def _from_store(options: argparse.Namespace, runs: tuple[str, ...]) -> "Ready":
    from analyzer.capacity.profile.gather import Source, capacity_profile
    from analyzer.capacity.profile.work import ProfileRequest
    from analyzer.settings.settings import site_of
    from collector.store.database import open_for_command

    config, settings = site_of(options.store, options.config)
    asked = ProfileRequest(options.team, options.project, runs, options.since, options.until)
    with open_for_command(config, read_only=True, threads=_ONE_THREAD) as store, believing(store) as session:

        def advise(period: Period) -> "list[Recommendation]":
            from analyzer.reports.reader import (
                Reader,  # all of the analyzer; a profile of kept weeks does without it
            )

            return Reader(session, settings).advised(period)

        made = capacity_profile(Source(session, settings, advise), asked)
    return _signed(made, options.key or _key_path(settings, config.store))


def _refuse_beside_recording(options: argparse.Namespace, runs: tuple[str, ...]) -> None:
    given = {"--runs": runs, "--project": options.project, "--since": options.since, "--until": options.until}
    given |= {"--store": options.store, "--server": options.server}
    for name, value in given.items():
        if value:
            raise ConfigError(f"{name} is of a ledger, and --recording is one command: leave one of them out")


def _from_recording(options: argparse.Namespace) -> "Ready":
    """Return the profile of one command that `gpuledger run` watched: self-measured, and of that host alone.

    Raises:
        LedgerError: the file is no recording, or no GPU was seen in it.
    """
    from analyzer.capacity.profile.gather import Source, capacity_profile
    from analyzer.capacity.profile.signature import of_user
    from analyzer.capacity.profile.work import ProfileRequest
    from analyzer.interfaces.cli.command import price_micros
    from analyzer.interfaces.cli.recording import booked
    from analyzer.reports.reader import Reader

    path: Path = options.recording
    with booked(path, price_micros(options.price)) as made:
        header = made.recording.header
        if not header.gpus:
            raise LedgerError(f"{path.name} saw no GPU ({header.no_gpu}): there is nothing to profile")
        source = Source(made.session, made.settings, Reader(made.session, made.settings).advised, "run", header.node)
        found = capacity_profile(source, ProfileRequest(runs=(header.run_id,)))
    caveats = (_ALONE, *(() if made.recording.end else (_CUT_OFF,)), *found.caveats)
    own = replace(found, team=options.team, holdings=(), free=(), caveats=caveats, chosen=_CHOSEN)
    return _signed(own, options.key or of_user(os.environ))


def _signed(made: CapacityProfile, path: Path) -> "Ready":
    from analyzer.capacity.profile.page import Ready
    from analyzer.capacity.profile.signature import key_at, signed

    secret = key_at(path)
    return Ready(signed(made, secret), secret)


def _from_server(options: argparse.Namespace, runs: tuple[str, ...]) -> "Ready":
    from analyzer.capacity.profile.page import Ready
    from analyzer.capacity.profile.signature import read_envelope
    from analyzer.server_client import ask_server_json

    if options.key:
        raise ConfigError("--key is for this machine; a server signs with its own")
    asked = {"team": options.team, "project": options.project, "since": options.since, "until": options.until}
    query = [(name, value) for name, value in asked.items() if value] + [("run", run) for run in runs]
    answer = ask_server_json(options.server, f"{_PATH}?{urllib.parse.urlencode(query)}")
    text, page_text = answer.get("profile"), answer.get("page")
    if not isinstance(text, str) or not isinstance(page_text, str):
        raise LedgerError(f"{options.server} does not answer as gpuledger does")
    envelope = read_envelope(text.encode())  # what cannot be read is not written
    return Ready(envelope, sent={"json": f"{text}\n", "html": page_text})
