"""What can go wrong with a mail.

MailError                exit 3
├── UnreachableError     the server does not answer, is not who it says, or wants none of our mails
├── LaterError           the server takes this mail not now (4xx)
└── RefusedError         the server takes this mail never (5xx)
"""

from analyzer.errors import AnalyzerError


class MailError(AnalyzerError):
    """A mail could not be handed over; the message says why and carries no secret."""


class UnreachableError(MailError):
    """No mail at all can be handed to the server: nothing was said of the one that was tried."""


class LaterError(MailError):
    """The server did not take this mail for now, or its answer is not known."""


class RefusedError(MailError):
    """The server refuses this mail for good."""
