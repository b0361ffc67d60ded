"""Whether a plan that somebody proposes keeps every rule, counted anew: shares no code with what makes plans."""

from analyzer.capacity.planner.validator.fingerprint import fingerprint
from analyzer.capacity.planner.validator.proposal import Claims, Placed, Proposal
from analyzer.capacity.planner.validator.proposal_parser import read_proposal
from analyzer.capacity.planner.validator.validate import validate
from analyzer.capacity.planner.validator.verdict import Broken, Rule, Verdict

__all__ = ["Broken", "Claims", "Placed", "Proposal", "Rule", "Verdict", "fingerprint", "read_proposal", "validate"]
