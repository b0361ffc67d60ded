"""What can go wrong with a language model."""

from analyzer.errors import AnalyzerError


class ModelError(AnalyzerError):
    """The model cannot be reached, refuses, or says what is no task file; exit 3. No key is ever in the message."""
