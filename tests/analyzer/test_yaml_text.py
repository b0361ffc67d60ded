"""YAML from anybody: what is read is what is seen, and no more than fits."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from analyzer.settings.bounded import respelled_yaml, yaml_said

DEEPEST = 5
BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "a: &x 1\nb: *x\n",
        "a: 1\na: 2\n",
        "a: !!python/object/apply:os.system ['true']\n",
        "a: !include /etc/passwd\n",
        "a: !!binary aGVsbG8=\n",
        "[" * 10_000,
        "a: {b: {c: {d: {e: {f: 1}}}}}\n",
        "? {a: 1}\n: 2\n",
        "a: [" + "1, " * 200_000 + "1]",
        "a: 'open\n",
        "a: 1\n---\nb: 2\n",
    ],
)
def test_what_could_surprise_is_refused(text: str) -> None:
    """Bombs, tags that make things, keys said twice, depth, size, several documents."""
    with pytest.raises((ValueError, yaml.YAMLError)):
        yaml_said(text, DEEPEST)


def test_respelled_says_the_same_without_what_cannot_be_seen() -> None:
    """A person confirms what is read, not what a comment says of it."""
    text = 'tasks:  # all of them, as you asked\n  "a\\u202e": {cpus: 4, after: [b]}\n  b\u200b: {cpus: 2}\n'
    shown = respelled_yaml(text)
    assert yaml_said(shown, DEEPEST) == yaml_said(text, DEEPEST)
    assert "#" not in shown
    assert shown.replace("\n", "").isprintable()
    assert shown.index("cpus: 4") < shown.index("cpus: 2")


def test_letters_of_other_languages_stay_as_they_are() -> None:
    """Umlauts are no hidden letters."""
    assert "Überprüfung" in respelled_yaml("tasks: {Überprüfung: 1}\n")


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=4))
def test_respelling_changes_no_value(said: dict[str, object]) -> None:
    """For anything that can be written."""
    text = yaml.safe_dump(said)
    assert yaml_said(respelled_yaml(text), 100) == said
