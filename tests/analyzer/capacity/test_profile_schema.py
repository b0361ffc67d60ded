"""The file's schema is published: whoever reads profiles by another program can check what he gets."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from analyzer.capacity.profile.canonical_json import canonical
from analyzer.capacity.profile.signature import Envelope, signed
from bench.published_schemas import profile_schema
from tests.analyzer.capacity.profile_example import EXAMPLE

PUBLISHED = Path(__file__).parents[3] / "docs" / "profile.schema.json"
SIGNED = canonical(signed(EXAMPLE, Ed25519PrivateKey.from_private_bytes(b"k" * 32)))


def test_the_published_schema_is_the_one_that_is_written(request: pytest.FixtureRequest) -> None:
    """Made from the dataclasses: it cannot say another thing than the file."""
    if request.config.getoption("--update-golden"):
        PUBLISHED.write_text(profile_schema())
    assert PUBLISHED.read_text() == profile_schema()


def test_files_are_as_the_schema_says() -> None:
    """Signed or not."""
    validator = jsonschema_rs.validator_for(json.loads(profile_schema()))
    assert validator.is_valid(json.loads(SIGNED))
    assert validator.is_valid(json.loads(canonical(Envelope(EXAMPLE, None))))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"gpus":16', '"gpus":"16"'),
        ('"currency":"USD",', ""),
        ('"by":"collector"', '"by":"god"'),
        ('"timezone":', '"zone":'),
        ('"algorithm":"ed25519"', '"algorithm":"none"'),
    ],
)
def test_other_files_are_not(old: str, new: str) -> None:
    """A schema that takes everything would be no use."""
    assert old in SIGNED
    validator = jsonschema_rs.validator_for(json.loads(profile_schema()))
    assert not validator.is_valid(json.loads(SIGNED.replace(old, new, 1)))
