"""What can go wrong when placements are planned."""

from analyzer.errors import AnalyzerError


class ProblemError(AnalyzerError):
    """The problem contradicts itself: what is held is more than there is, or a name is unknown."""
