"""What a recommendation is: from, to, why, what it saves, what moving costs, and the text to paste."""

from dataclasses import dataclass

from analyzer.placement.artefact import Artefact


@dataclass(frozen=True, slots=True)
class Range:
    """A prediction as P20, P50 and P80, per week."""

    p20: int
    p50: int
    p80: int


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One concrete change of placement or allotment. `saves_micros` is None where no price is known."""

    id: str
    finding_ids: tuple[str, ...]
    kind: str  # reorder_ranks, more_cpu, local_nvme, co_locate, release, share_mig, …
    subject: str
    team: str | None
    actor: str | None
    title: str  # "order the ranks by rack", as on the weekly report
    from_: str
    to: str
    why: str
    saves_milliseconds: Range  # GPU time a week
    saves_micros: Range | None
    cost_to_move: str  # in words a person can check: "none: a setting", "one restart: 12 min of 64 GPUs, $33"
    cost_to_move_micros: int | None
    artefacts: tuple[Artefact, ...]
    losers: str  # who loses by it, "nobody: the cores are unallotted"

    @property
    def artefact(self) -> str:
        """The lines to paste, of all artefacts."""
        return "\n".join(each.text for each in self.artefacts)
