"""The commands that make the ledger, and take what it says of each job back to Slurm."""

import argparse
import time
from pathlib import Path

from agent.wire.units import DAY_US
from analyzer.analysis import analyze as bring_up_to_date
from analyzer.errors import ConfigError, LedgerError, UnansweredError
from analyzer.interfaces.cli.command import add_place, asking
from analyzer.interfaces.cli.decisions import where
from analyzer.interfaces.text.run_text import SO_FAR
from analyzer.ledger.booking import Analysis
from analyzer.reports.prediction_book import keep_recommendations
from analyzer.reports.request import Request
from analyzer.settings.settings import site_of
from collector.config import check_there
from collector.schedulers.slurm.reader import Commands, comment_on, ended_jobs
from collector.store.database import open_for_command

_OK = 0
_OURS = "gpuledger: "  # how our comments begin: those of others stay as they are
_MOST_JOBS = 1000  # of one call: what is left is for the next
_WHOLE_SECONDS, _COMMAND_SECONDS, _LOOKED_BACK_US = 120.0, 20.0, 2 * DAY_US
_BOOKED_BY = "gpuledger serve --only analyzer books it, in turn with the others"


def analyze(argv: list[str]) -> int:
    """Bring the ledger up to date, once: the hours that anything new touches are booked anew, closed ones adjusted."""
    parser = argparse.ArgumentParser(prog="gpuledger admin analyze", description=analyze.__doc__)
    _add_store(parser)
    options = parser.parse_args(argv)
    config, settings = where(options, _BOOKED_BY)
    check_there(config)
    began = time.monotonic()
    now_us = time.time_ns() // 1000
    with open_for_command(config, memory_limit=settings.memory_limit, threads=settings.threads) as store:
        done = bring_up_to_date(store, settings, now_us=now_us)
        keep_recommendations(store, settings, now_us)
    print(_done(done, time.monotonic() - began))
    return _OK


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")


def _done(done: Analysis, seconds: float) -> str:
    if not done.hours:
        return "nothing new: the ledger is up to date"
    corrected = f", {done.adjustments} adjustments of closed hours" if done.adjustments else ""
    return f"{done.hours} hours, {done.rows} rows{corrected}, in {seconds:.1f} s"


def slurm(argv: list[str]) -> int:
    """Write what each job of GPUs that has ended cost, lost, and what to change into its AdminComment in accounting.

    No job waits for it: it is for a timer, and changes jobs that have ended within two days, and no other comment than
    its own. It needs the rights of an operator of Slurm.
    """
    parser = argparse.ArgumentParser(prog="gpuledger admin slurm", description=slurm.__doc__)
    parser.add_argument("--dry-run", action="store_true", help="print the comments, and write none")
    add_place(parser)
    options = parser.parse_args(argv)
    config, settings = site_of(options.store, options.config)
    if not config.slurm:
        raise ConfigError("collector.slurm is not set: it says what the cluster is called in the ledger")
    directory = Path(config.slurm_commands) if config.slurm_commands else None
    commands = Commands(directory, _COMMAND_SECONDS, config.slurm_bytes)
    jobs = ended_jobs(commands, time.time_ns() // 1000 - _LOOKED_BACK_US)
    ours = [job for job in jobs if not job.comment or job.comment.startswith(_OURS)]
    until = time.monotonic() + _WHOLE_SECONDS
    written = unknown = later = 0
    with asking(options) as answer:
        for looked, job in enumerate(ours):
            if looked == _MOST_JOBS or time.monotonic() > until:
                later += len(ours) - looked
                break
            run_id = f"slurm/{config.slurm}/{job.id}"
            try:
                line = answer(Request("run", subject=run_id, format="line")).strip()
            except LedgerError as error:
                if isinstance(error, UnansweredError) and error.status is None:
                    raise
                unknown += 1
                continue
            line = line.replace('"', "").replace("'", "")  # sacctmgr takes quotes away, and 22.05 writes small letters
            text = _OURS + line + (f"; {settings.site_url}/runs/{run_id}" if settings.site_url else "")
            if line.endswith(SO_FAR):
                later += 1
            elif text.lower() != job.comment.lower():
                written += 1
                if options.dry_run:
                    print(f"{job.id} {text}")
                else:
                    comment_on(commands, job, text)
    word = "to write" if options.dry_run else "written"
    print(f"{written} {word}, {later} later, {unknown} that the ledger does not know, of {len(jobs)} jobs that ended")
    return _OK
