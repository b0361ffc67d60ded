"""A record of what the product says asks every command, or says why not."""

from bench.record.questions import forgotten


def test_no_command_is_forgotten() -> None:
    """A new command that nobody asks would change unseen."""
    assert forgotten() == []
