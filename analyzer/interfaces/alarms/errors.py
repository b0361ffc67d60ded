"""What can go wrong while an alarm is told.

AlarmError              exit 3
├── LaterError          the receiver is out of reach, or asks to be asked again (429, 5xx)
└── RefusedError        the receiver takes it never (other 4xx)
"""

from analyzer.errors import AnalyzerError


class AlarmError(AnalyzerError):
    """An alarm could not be handed over; the message says to whom and why, and carries no secret."""


class LaterError(AlarmError):
    """Not now."""


class RefusedError(AlarmError):
    """Not as it is, however often it is tried."""
