"""How much of people's names leaves a host."""

import pytest

from agent.config import IdentityMode
from agent.sampling.stamp import Identity, Stamper
from agent.wire.envelope import encode
from agent.wire.tables import TABLES

ROW = {"node": "n1", "run_id": "slurm/alpha/1", "user": "ada", "account": "nlp", "queue": "gpu", "labels": None}
KEY = "a key of sixteen"


def applied(mode: IdentityMode, key: str = KEY) -> dict[str, object]:
    """Apply an identity mode to an allocation."""
    return dict(Identity(mode, key).applied(TABLES["allocations"], dict(ROW)))


def test_full_changes_nothing() -> None:
    """A site that trusts its collector needs names on its report."""
    assert applied("full") == ROW


def test_none_leaves_ids_alone() -> None:
    """Job ids and queues still let the fleet be accounted for."""
    assert applied("none") == ROW | {"user": None, "account": None}


def test_pseudonyms_are_stable_and_keyed() -> None:
    """The same user must stay one user, and a list of names must not be tried against the store without the key."""
    assert applied("hashed") == applied("hashed")
    assert applied("hashed")["user"] != applied("hashed", "another key, long")["user"]
    assert applied("hashed")["queue"] == "gpu"
    assert applied("hashed")["labels"] is None, "what was not there gets no pseudonym"


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_sensitive_column_is_covered(table: str) -> None:
    """A column that is marked as identity in the contract is never sent in clear by a host that hashes."""
    sensitive = [column.name for column in TABLES[table].columns if column.sensitivity == "identity"]
    row = Identity("none").applied(TABLES[table], dict.fromkeys(TABLES[table].names, "ada"))
    assert [name for name in TABLES[table].names if row[name] is None] == sensitive


NAMED = [
    "kubernetes/prod/team-secret.ada-notebook-0",
    "declared/n1/ada-test",
    "declared/alpha/torchrun-ada",
    "declared/n1/4242/mine",
    "declared/n1/4242/torchrun-4711.99213-29500",
    "ray/alpha/4242/f6d86b18.02000000",
    "/home/ada",
    "192.0.2.7",
    "fd00::7",
]
NUMBERED = [
    "slurm/alpha/81234_7",
    "slurm/alpha/81234+1",
    "kubernetes/prod/0b7e4c1a-52f1-4f59-9d3c-6a1e2f3d4c5b",
    "process/ada-desk/4711.99213",
    "unattributed/n1",
    "nvme0n1",
    "n2",
]


@pytest.mark.parametrize("mode", ["hashed", "none"])
def test_an_id_keeps_its_numbers_and_loses_its_names(mode: IdentityMode) -> None:
    """A pod is known by its name until its uid is, and a job may be called after its owner."""

    def told(value: str) -> object:
        return Identity(mode, KEY).applied(TABLES["flow_samples"], {"run_id": value, "peer": value})["run_id"]

    assert [told(value) for value in NUMBERED] == NUMBERED
    for value in NAMED:
        assert "ada" not in str(told(value))
        assert "secret" not in str(told(value))
        assert "4242" not in str(told(value)), "a user's number is as good as the name"
        assert "h-" in str(told(value))
    assert len({told(value) for value in NAMED}) == len(NAMED)


def test_two_names_of_one_run_are_still_joined() -> None:
    """What run_aliases says in pseudonyms must fit what allocations say in them."""
    pod = {"alias_run_id": NAMED[0], "run_id": NUMBERED[2], "member": "ada-notebook-0"}
    alias = Identity("none").applied(TABLES["run_aliases"], dict(pod))
    held = Identity("none").applied(TABLES["allocations"], {"run_id": NAMED[0]})
    assert alias == {"alias_run_id": held["run_id"], "run_id": NUMBERED[2], "member": None}


def test_without_a_key_a_name_cannot_be_tried() -> None:
    """A hash that everybody can make hides nobody."""
    ours = Identity("none").applied(TABLES["progress"], {"run_id": NAMED[1]})["run_id"]
    assert ours != Identity("none", " ").applied(TABLES["progress"], {"run_id": NAMED[1]})["run_id"]


def test_a_name_that_is_no_text_costs_no_batch() -> None:
    """Interfaces and users may be called by any bytes; one of them made the whole batch unwritable."""
    reading = {"network_samples": [{"device": b"eth\xf8".decode(errors="surrogateescape")}, {"device": "enó"}]}
    tables = Stamper("n1").stamped(reading, 1, 2)
    assert [row["device"] for row in tables["network_samples"]] == ["eth?", "enó"]
    assert encode(agent="n1", stream="s", sequence=0, sent_at=0, tables=tables)
