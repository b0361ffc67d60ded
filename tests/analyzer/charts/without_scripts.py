"""A document as goldens keep it: its scripts are a megabyte, and tests of their own."""

from markupsafe import escape

from analyzer.text.templating import policy, scripts


def without_scripts(page: str) -> str:
    """Return a document with a word in place of its scripts and of the policy that has their hashes."""
    return page.replace(str(scripts()), "the scripts\n").replace(str(escape(policy())), "the policy")
