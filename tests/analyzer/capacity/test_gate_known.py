"""What a request names must be there: an invented team has no history, and passes no gate as a newcomer."""

from dataclasses import replace

import pytest

from analyzer.capacity.gate.decided import Decided
from analyzer.capacity.gate.policy_check import check_request
from analyzer.capacity.gate.supply import History, Names, Supply
from analyzer.errors import ConfigError
from tests.analyzer.capacity.gate_asking import A100, H100, NOW, policy, profile, read, request

SITE = Names(
    frozenset({"team-nlp", "team-vision"}), frozenset({"team-nlp", "team-vision"}), frozenset({H100, "B200"}), "UTC"
)
NEW = {"pilot": True, "gpus": 8, "weeks": 2, "growth": None, "gpus_per_run": None}


def judged(names: Names | None = SITE, state: str | None = None, **changes: object) -> Decided:
    """Return what is decided on a pilot, or with a profile in a state."""
    changes = (NEW if state is None else {}) | changes
    supply = Supply(names=names, history=History(0, 0, ""))
    return check_request(request(**changes), None if state is None else read(state=state), policy(), supply, NOW)


@pytest.mark.parametrize(
    ("team", "says"),
    [
        ("team-nlpp", "which is neither in the teams file nor in the ledger; did you mean team-nlp?"),
        ("TEAM-NLP", "; known are team-nlp, team-vision"),
        ("x", "; known are team-nlp, team-vision"),
    ],
)
def test_a_team_that_nobody_knows_is_refused(team: str, says: str) -> None:
    """Each new name would else be a new team, with a pilot of its own."""
    with pytest.raises(ConfigError) as error:
        judged(team=team)
    assert says in str(error.value)
    assert judged().verdict == "PASS"


def test_a_team_is_told_no_other_teams_names() -> None:
    """Who sees one team alone learns from a slip what to do, and not who else there is."""
    with pytest.raises(ConfigError) as error:
        judged(replace(SITE, told=frozenset()), team="team-visio")
    assert str(error.value).endswith("ledger: a rule of the teams file makes one known")


def test_a_collector_that_is_trusted_vouches_for_its_teams() -> None:
    """Another site's profile names teams that this one has never seen; whoever edits it vouches for nobody."""
    elsewhere = replace(SITE, teams=frozenset({"team-vision"}))
    assert judged(elsewhere, "trusted").evidence is not None
    for state in ("edited", "unsigned", "unknown_key"):
        with pytest.raises(ConfigError, match="neither in the teams file nor in the ledger"):
            judged(elsewhere, state)
    own_word = replace(read(), profile=profile(made=replace(profile().made, by="run")))
    with pytest.raises(ConfigError, match="neither in the teams file nor in the ledger"):
        check_request(request(), own_word, policy(), Supply(names=elsewhere), NOW)


def test_a_kind_that_nothing_is_called_is_refused() -> None:
    """A slip in it would find no price, no memory and no free GPU, and say so three times."""
    with pytest.raises(ConfigError, match=r"'sku' is H100-80G, .* did you mean H100-80GB\?"):
        judged(sku="H100-80G")
    with pytest.raises(ConfigError, match=r"'sku' is B20, .* known are A100-80GB, H100-80GB \(a type that is yet"):
        judged(None, "trusted", sku="B20")
    assert judged(sku="B200").request.sku == "B200"  # of the price file
    assert judged(SITE, "trusted", sku=A100).request.sku == A100  # of the profile
    assert judged(None, sku="anything").verdict == "PASS"  # nobody to ask


@pytest.mark.parametrize(
    ("timezone", "starts", "says"),
    [
        ("UTC", "2026-11-20", "'starts' is 2026-11-20, which is in the past: today is 2026-11-21 (UTC)"),
        ("UTC", "1970-01-01", "which is in the past"),
        ("UTC", "2226-12-01", "'starts' is 2226-12-01, more than 5 years from today"),
        ("Pacific/Kiritimati", "2026-11-20", "today is 2026-11-21 (Pacific/Kiritimati)"),
    ],
)
def test_a_start_that_cannot_be_is_refused(timezone: str, starts: str, says: str) -> None:
    """Nobody can be given GPUs for days that are over, and a price of two hundred years ahead is none."""
    with pytest.raises(ConfigError) as error:
        judged(replace(SITE, timezone=timezone), starts=starts)
    assert says in str(error.value)


def test_today_is_not_past() -> None:
    """By the site's own clock: it is still yesterday in Honolulu."""
    assert judged(starts="2026-11-21").verdict == "PASS"
    assert judged(replace(SITE, timezone="Pacific/Honolulu"), starts="2026-11-20").verdict == "PASS"
