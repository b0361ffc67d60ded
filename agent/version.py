"""Which version of gpuledger is installed here."""

import os
import sys

_HEAD, _TAIL = "gpuledger-", ".dist-info"


def installed_version() -> str | None:
    """Return the version, or None in a checkout that is not installed.

    It stands in the name of the folder that installing makes. importlib.metadata reads it too, and brings the parser of
    e-mails for that, which takes as long as all else that a command needs to say its version.
    """
    for folder in sys.path:
        try:
            names = os.listdir(folder or os.curdir)  # noqa: PTH208 - pathlib takes longer to load than this
        except OSError:  # a zip file, or a folder that is gone
            continue
        for name in names:
            if name.startswith(_HEAD) and name.endswith(_TAIL):
                return name[len(_HEAD) : -len(_TAIL)]
    return None
