"""Which version of gpuledger is installed here."""

from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "gpuledger"


def installed_version() -> str | None:
    """Return the version, or None in a checkout that is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return None
