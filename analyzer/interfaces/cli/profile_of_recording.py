"""The profile of one command that `gpuledger run` watched on one host: self-measured, and of that host alone."""

from dataclasses import replace
from pathlib import Path

from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.capacity.profile.gather import Source, capacity_profile
from analyzer.capacity.profile.work import ProfileRequest
from analyzer.errors import LedgerError
from analyzer.interfaces.cli.recording import booked
from analyzer.reports.reader import Reader

_ALONE = "Self-measured by gpuledger run on one host: what the team has elsewhere, and what is free, is not known."
_CHOSEN = "the one command that was watched"
_CUT_OFF = "The watching was cut off before the command had ended."


def profile_of_recording(path: Path, price: int | None, team: str | None = None) -> CapacityProfile:
    """Return the profile of a recording; `price` is of a GPU-hour, in millionths, and `team` is whoever says so.

    Raises:
        LedgerError: the file is no recording, or no GPU was seen in it.
    """
    with booked(path, price) as made:
        header = made.recording.header
        if not header.gpus:
            raise LedgerError(f"{path.name} saw no GPU ({header.no_gpu}): there is nothing to profile")
        source = Source(made.session, made.settings, Reader(made.session, made.settings).advised, "run", header.node)
        found = capacity_profile(source, ProfileRequest(runs=(header.run_id,)))
    cut_off = () if made.recording.end else (_CUT_OFF,)
    return replace(found, team=team, holdings=(), free=(), caveats=(_ALONE, *cut_off, *found.caveats), chosen=_CHOSEN)
