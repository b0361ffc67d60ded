"""Whether a plan that somebody proposes keeps every rule, counted anew: shares no code with what makes plans."""

from analyzer.planning.validator.fingerprint import fingerprint
from analyzer.planning.validator.proposal import Claims, Placed, Proposal
from analyzer.planning.validator.reading import read_proposal
from analyzer.planning.validator.validate import validate
from analyzer.planning.validator.verdict import Broken, Rule, Verdict

__all__ = ["Broken", "Claims", "Placed", "Proposal", "Rule", "Verdict", "fingerprint", "read_proposal", "validate"]
