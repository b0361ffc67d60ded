"""The key that a collector, or a user of `gpuledger run`, signs profiles with: made once, 0600, and never sent."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from analyzer.errors import ConfigError

_OWNER_ALONE = 0o600
_BESIDE = ".profile.key"  # after the store's own name
_KEY_BYTES = 4096
_STATE_FOLDER = "XDG_STATE_HOME"  # XDG Base Directory Specification; ~/.local/state where it is not set
_OWN_FOLDER, _OWN_KEY = "gpuledger", "profile.key"


def default_key_path(store: Path) -> Path:
    """Return where the key of a store's collector lies, unless the settings name another place."""
    return store.with_name(store.name + _BESIDE)


def of_user(environ: Mapping[str, str]) -> Path:
    """Return where the key of this user's own runs lies."""
    named = environ.get(_STATE_FOLDER, "")
    state = Path(named) if named.startswith("/") else Path.home() / ".local" / "state"
    return state / _OWN_FOLDER / _OWN_KEY


def key_at(path: Path) -> Ed25519PrivateKey:
    """Return the key of a file; where there is no file, make one.

    Raises:
        ConfigError: it cannot be read or made, others may read it, or it is no such key.
    """
    try:
        content = _content(path)
    except (FileNotFoundError, NotADirectoryError):
        return _made(path)
    except OSError as error:
        raise ConfigError(f"cannot read the key {path}: {error.strerror}") from error
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path} is no key that profiles are signed with; name another file") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path} is a key of another kind than Ed25519; name another file")
    return key


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & ~_OWNER_ALONE:
            raise ConfigError(f"others may read the key {path} (mode {mode:04o}): chmod 600 it, and make a new one")
        return file.read(_KEY_BYTES)


def _made(path: Path) -> Ed25519PrivateKey:
    """Make a key under another name and link it: a key that is there is whole, and two processes make one."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(part, pem)
        try:
            path.hardlink_to(part)
        except FileExistsError:  # another process was quicker
            return key_at(path)
        finally:
            part.unlink()
    except OSError as error:
        raise ConfigError(
            f"cannot make the key {path}: {error.strerror}; name a place for it: profile_key in the settings, or --key"
        ) from error
    return key


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ALONE), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
