"""Which version of gpuledger is installed here."""

_DISTRIBUTION = "gpuledger"


def installed_version() -> str | None:
    """Return the version, or None in a checkout that is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # it brings the e-mail parser: not for each command

    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        return None
