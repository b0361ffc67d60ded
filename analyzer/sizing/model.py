"""The model that is to be sized: one of the table, or one whose figures somebody says. No shape is guessed."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import TomlEntry, read_toml
from analyzer.sizing.shape import Shape

_TABLE = Path(__file__).with_name("models.toml")
_WIDTHS = ("layers", "hidden", "heads", "key_value_heads", "intermediate", "vocabulary")
_FLAGS = ("is_tied", "has_query_bias")
_EXPERTS = ("experts", "experts_active")
# What a release of the same shape adds to a name: "Llama-2-7b-chat-hf", "Mixtral-8x7B-Instruct-v0.1".
_RELEASE = re.compile(r"-(hf|chat|instruct|base|it|awq|gptq|fp8|bf16|v0\.\d)$")


@dataclass(frozen=True, slots=True)
class Model:
    """A model: its name, its parameters, and its shape where it is known. `source` says whose figures these are."""

    name: str
    parameters: int
    shape: Shape | None
    source: str
    also: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names that it goes by, as `plain_name` gives them."""
        return frozenset((self.name, *self.also))


def plain_name(name: str) -> str:
    """Return a model's name without its owner, case and release: "meta-llama/Llama-2-7b-chat-hf" is "llama-2-7b"."""
    short = name.strip().rstrip("/").rsplit("/", 1)[-1].lower().replace("_", "-")
    while (shorter := _RELEASE.sub("", short)) != short:
        short = shorter
    return short


@cache
def known_models() -> tuple[Model, ...]:
    """Return the table, as it is shipped."""
    known = ("name", "also", "source", *_WIDTHS, *_FLAGS, *_EXPERTS)
    return tuple(_model(entry) for entry in read_toml(_TABLE, ("model",)).entries("model", known))


def _model(entry: TomlEntry) -> Model:
    hidden, heads = entry.count("hidden"), entry.count("heads")
    shape = Shape(
        layers=entry.count("layers"),
        hidden=hidden,
        heads=heads,
        key_value_heads=entry.count("key_value_heads"),
        head_width=hidden // heads,
        intermediate=entry.count("intermediate"),
        vocabulary=entry.count("vocabulary"),
        is_tied=entry.has("is_tied") and entry.flag("is_tied"),
        has_query_bias=entry.has("has_query_bias") and entry.flag("has_query_bias"),
        experts=entry.count("experts") if entry.has("experts") else 1,
        experts_active=entry.count("experts_active") if entry.has("experts_active") else 1,
    )
    return Model(entry.text("name"), shape.parameters, shape, entry.text("source"), entry.text_list("also"))


def find_model(name: str) -> Model | None:
    """Return the model of the table that goes by this name, or None."""
    plain = plain_name(name)
    return next((model for model in known_models() if plain in model.names), None)


def model_named(name: str) -> Model:
    """Return the model of the table that goes by this name.

    Raises:
        ConfigError: there is none; the message names the nearest, and the way without the table.
    """
    found = find_model(name)
    if found is None:
        names = [each for model in known_models() for each in sorted(model.names)]
        near = get_close_matches(plain_name(name), names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(model.name for model in known_models())};"
        raise ConfigError(
            f"no model of the table is called {name!r}; {hint} any other is told with --parameters, --layers, --hidden"
        )
    return found
