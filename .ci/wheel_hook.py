"""What the wheel has and a checkout has elsewhere: the package `gpuledger`, made of gpuledger.py, and share/.

An editable installation has the checkout's own layout, and so none of it; force-include in pyproject.toml would copy it
into site-packages all the same.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling before it builds."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the package to a wheel that is to be installed; `version` is "standard" or "editable"."""
        if version == "standard":
            build_data["force_include"] |= {
                f"{self.root}/gpuledger.py": "gpuledger/__init__.py",
                f"{self.root}/.ci/installed_main.py": "gpuledger/__main__.py",
                f"{self.root}/.ci/py.typed": "gpuledger/py.typed",
            }
            made = Path(self.root, "share")  # by make manual
            files = (path for path in sorted(made.rglob("*")) if path.is_file())
            build_data["shared_data"] |= {str(path): f"share/{path.relative_to(made)}" for path in files}
