"""The policy: a source beside each number, a site's own over ours, and every slip told."""

from datetime import date
from pathlib import Path

import pytest

from analyzer.capacity.gate.gates import JUDGES
from analyzer.capacity.gate.policy import NAMES, read_policy
from analyzer.errors import ConfigError

KEY = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="  # RFC 8032, 7.1, test 1, in base64


def site(folder: Path, text: str) -> Path:
    """Write a site's file."""
    path = folder / "gates.toml"
    path.write_text(text)
    return path


def test_our_own_has_every_gate_with_a_source() -> None:
    """A bar that nobody can explain is argued about at each request."""
    policy = read_policy()
    assert [rule.name for rule in policy.rules] == list(NAMES) == list(JUDGES)
    assert all(rule.source and rule.as_of for rule in policy.rules)
    assert {rule.name: dict(rule.numbers) for rule in policy.rules if rule.numbers} == {
        "age": {"days": 30},
        "measured": {"percent": 95},
        "runs": {"runs": 3, "gpu_hours": 50},
        "idle": {"percent": 5},
        "memory": {"percent": 50},
        "scaling": {"percent": 70, "hours": 2},
        "useful": {"percent": 50},
        "waiting": {"percent": 15},
        "recommendations": {"percent": 10},
        "cheaper": {"hours": 2},
    }
    assert [rule.name for rule in policy.rules if rule.need == "optional"] == ["cheaper"]
    assert [rule.name for rule in policy.rules if rule.waiver == "nobody"] == ["signed"]
    assert policy.keys == ()
    assert policy.told == "gates.toml of 2026-11-01"


def test_a_site_says_only_what_differs(tmp_path: Path) -> None:
    """And the digest, which decisions keep, is another one."""
    text = f"""
    version = 2026-11-20
    [gates.useful]
    percent = 60
    source = "board of 19 November"
    as_of = 2026-11-19
    [gates.cheaper]
    need = "required"
    [pilot]
    gpus = 4
    source = "the same"
    as_of = 2026-11-19
    [[key]]
    name = "alpha"
    public_key = "{KEY}"
    """
    ours, theirs = read_policy(), read_policy(site(tmp_path, text))
    assert (theirs.rule("useful").number("percent"), theirs.rule("useful").as_of) == (60, date(2026, 11, 19))
    assert (theirs.rule("cheaper").need, theirs.rule("cheaper").number("hours")) == ("required", 2)
    assert (theirs.pilot.gpus, theirs.pilot.weeks) == (4, ours.pilot.weeks)
    assert theirs.rule("idle") == ours.rule("idle")
    assert [key.name for key in theirs.keys] == ["alpha"]
    assert theirs.digest != ours.digest


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'version' must be a date"),
        ("version = 2026-11-20\n[gates.usefull]\npercent = 1", "unknown key 'usefull'; did you mean 'useful'?"),
        ("version = 2026-11-20\n[gates.useful]\ndays = 1", "unknown key 'days'"),
        ("version = 2026-11-20\n[gates.useful]\npercent = 60", "'source' is missing"),
        ('version = 2026-11-20\n[gates.useful]\npercent = 60\nsource = "x"', "'as_of' must be a date"),
        ("version = 2026-11-20\n[gates.useful]\npercent = 101", "a share of no more than 100, not 101"),
        ("version = 2026-11-20\n[gates.useful]\npercent = -1", "must be a whole number"),
        ("version = 2026-11-20\n[gates.useful]\npercent = nan", "must be a whole number"),
        ('version = 2026-11-20\n[gates.useful]\nneed = "maybe"', "must be one of required, optional, not 'maybe'"),
        ('version = 2026-11-20\n[gates.useful]\nwaiver = "me"', "must be one of approver, nobody, not 'me'"),
        ("version = 2026-11-20\n[offer]\nstep_gpus = 0", "'step_gpus' must be 1 to 10,000"),
        ("version = 2026-11-20\n[pilot]\ngpus = 4", "'as_of' must be a date"),
        ('version = 2026-11-20\n[[key]]\nname = "a"\npublic_key = "x"', "not an Ed25519 key"),
        ("version = 2026-11-20\ngates = 1", "must be written as [gates]"),
    ],
)
def test_a_slip_is_told(tmp_path: Path, text: str, says: str) -> None:
    """A policy that is half understood would pass or stop millions."""
    with pytest.raises(ConfigError) as error:
        read_policy(site(tmp_path, text))
    assert says in str(error.value)
