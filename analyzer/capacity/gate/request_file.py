"""Read a request file: TOML, JSON or YAML by its ending, small and flat, each key once."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import yaml

from agent.wire.bounded import TooDeepError, json_said, toml_said
from analyzer.capacity.gate.request import Request, request_of
from analyzer.errors import ConfigError
from analyzer.settings.yaml_text import yaml_said

FILE_BYTES = 64 * 1024  # a request is a page; what is larger is something else
_DEEPEST = 3
_ENDINGS = ".toml, .json, .yaml or .yml"


def read_request(path: Path) -> Request:
    """Return the request of a file.

    Raises:
        ConfigError: the file cannot be read, is too large or none of the three, or says what no request can.
    """
    return request_of(path.name, parsed_file(path))


def parsed_file(path: Path) -> Mapping[str, object]:
    """Return what a request's file says, before its keys are looked at.

    Raises:
        ConfigError: the file cannot be read, is too large or none of the three.
    """
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; name another file or mend its permissions") from error
    if len(content) > FILE_BYTES:
        raise ConfigError(f"{path} has over {FILE_BYTES:,} bytes: no request is that long")
    return _parsed(path, content)


def _parsed(path: Path, content: bytes) -> Mapping[str, object]:
    readers = {".toml": _toml, ".json": _json, ".yaml": _yaml, ".yml": _yaml}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(f"{path.name}: a request is a file that ends in {_ENDINGS}")
    try:
        said = reader(content.decode("utf-8"))
    except TooDeepError as error:
        raise ConfigError(f"{path.name} is nested too deeply to be read") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name} is not UTF-8") from error
    except (ValueError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise ConfigError(f"{path.name} cannot be read as {path.suffix[1:].upper()}: {why[:200]}") from error
    if not isinstance(said, dict):
        raise ConfigError(f"{path.name}: a request is a list of keys with their values, as in gpus = 32")
    return said


def _toml(text: str) -> object:
    return toml_said(text, parse_float=Decimal)


def _json(text: str) -> object:
    return json_said(text, object_pairs_hook=once, parse_float=Decimal, parse_constant=_no_number)


def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object whose keys are each said once.

    Raises:
        ValueError: a key is said twice.
    """
    said = dict(pairs)
    if len(said) < len(pairs):
        raise ValueError("one key is said twice")
    return said


def _no_number(word: str) -> object:
    raise ValueError(f"{word} is no number")


def _yaml(text: str) -> object:
    return yaml_said(text, _DEEPEST)
