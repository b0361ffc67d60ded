"""Signed profiles, and a policy that believes their key."""

import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from analyzer.capacity.profile.canonical_json import canonical
from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.capacity.profile.signature import public_text, signed

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def signed_text(one: CapacityProfile) -> str:
    """Return the file of a profile that the key of alpha signed."""
    return canonical(signed(one, KEY))


def signed_document(one: CapacityProfile) -> dict[str, Any]:
    """Return the same as parsed JSON."""
    document: dict[str, Any] = json.loads(signed_text(one))
    return document


def policy_file(folder: Path, more: str = "") -> Path:
    """Write a site's policy that names the key."""
    path = folder / "gates.toml"
    key = public_text(KEY.public_key())
    path.write_text(f'version = 2026-11-01\n{more}\n[[key]]\nname = "alpha"\npublic_key = "{key}"\n')
    return path
