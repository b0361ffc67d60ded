"""What one who asks may see: everything, or the GPU time of some teams alone (reports/confining.py hides the rest)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyzer.findings.finding import Finding
from analyzer.interfaces.api.faults import PeopleError
from analyzer.queries.dimensions import PEOPLE
from collector.registry.roles import Right

if TYPE_CHECKING:
    from analyzer.findings.health.notice import Notice
    from analyzer.recommendations.lifecycle.prediction import Prediction
    from analyzer.recommendations.recommendation import Recommendation


@dataclass(frozen=True, slots=True)
class Scope:
    """Who asks: the teams that may be seen, None is all of them and what nobody held; and whether they judge.

    Whoever judges findings and decides on recommendations sees people by name, too.
    """

    teams: tuple[str, ...] | None = None
    loss_source: bool = True

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> "Scope":
        """Return the scope of an ASGI request, which the gate has written there; without a gate it is all."""
        principal = scope.get("principal")
        if principal is None:
            return cls()
        return cls(None if principal.teams is None else tuple(sorted(principal.teams)), principal.may(Right.JUDGE))

    def check(self, dimensions: Iterable[str]) -> None:
        """See that none of these dimensions names people to who may not know them.

        Raises:
            PeopleError: one does.
        """
        if not self.loss_source and PEOPLE & set(dimensions):
            raise PeopleError("who spent it is shown to keys of the roles owner and admin; ask by team")

    def sees(self, item: "Finding | Notice | Prediction | Recommendation") -> bool:
        """Return whether a finding, notice or recommendation may be shown; what has no team is the site's alone."""
        return self.teams is None or item.team in self.teams
