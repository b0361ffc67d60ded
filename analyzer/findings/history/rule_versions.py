"""By which version of its own rule a finding was made: what each version of the rules together consisted of."""

import json
from typing import TYPE_CHECKING

from analyzer.ledger.thresholds import Thresholds

if TYPE_CHECKING:
    from collector.store.session import Session

RuleVersions = dict[str, dict[str, str]]  # by the version of all rules, then by the name of one


def keep_rule_versions(session: "Session", rules_version: str, limits: Thresholds) -> None:
    """Write down once of what the rules consist by which a pass judges."""
    if not session.rows("SELECT 1 FROM rule_versions WHERE rules_version = ?", [rules_version]):
        row = (rules_version, json.dumps(limits.rule_versions(), sort_keys=True))
        session.load("rule_versions", ("rules_version", "versions"), [row])


def rule_versions(session: "Session") -> RuleVersions:
    """Return what is known of all versions by which anything was ever judged."""
    return {whole: json.loads(versions) for whole, versions in session.rows("FROM rule_versions")}
