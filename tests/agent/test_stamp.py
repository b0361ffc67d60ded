"""How much of people's names leaves a host."""

import pytest

from agent.stamp import Identity, IdentityMode
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
