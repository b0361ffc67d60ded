"""Where we are installed, in which version; our processes take their code from there alone.

Python looks into the working folder (-m, -c) and into PYTHONPATH before anything else, so that a folder `agent`, or a
file json.py, of somebody's training code would be run in our place. This is imported before all else, and so imports
what the interpreter has loaded by itself, and nothing more.
"""

import gc
import os
import site
import sys

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120  the folder of our packages


def command(module: str, *arguments: str) -> list[str]:
    """Return the line that runs a module of ours in a process of its own. Every Python that we start begins with it.

    -E: no variable tells it where code is; agent/log_format.py says why it has no positions within lines.
    """
    return [sys.executable, "-E", "-X", "no_debug_ranges", os.path.join(_ROOT, "agent", "child.py"), module, *arguments]  # noqa: PTH118


def keep_apart() -> None:
    """Take the working folder and those of PYTHONPATH from the path of this process, and put our own first.

    What was started in our name by other means (`python -m gpuledger`, a console script) begins with it. What a Python
    runs before it comes to us, a sitecustomize.py in PYTHONPATH, is out of our hands.
    """
    library = os.path.dirname(os.__file__)  # noqa: PTH120
    installed = {library, os.path.join(library, "lib-dynload"), *site.getsitepackages(), site.getusersitepackages()}  # noqa: PTH118
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    foreign = {"", *_absolute(["", *named])} - installed
    sys.path[:] = [_ROOT, *(place for place in sys.path if place not in foreign and place != _ROOT)]


def load(module: str) -> object:
    """Import a module of ours, as what this process is there for, and return it.

    Nothing of what is imported is garbage. To look for it meanwhile takes a sixth of the time of a server's start; to
    look through all of it again, soon afterwards and twice when the process ends, a third of what a command takes.
    """
    if module not in sys.modules:
        gc.disable()
        try:
            __import__(module)
        finally:
            gc.freeze()
            gc.enable()
    return sys.modules[module]


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


def _absolute(places: list[str]) -> list[str]:
    try:
        return [os.path.abspath(place) for place in places]  # noqa: PTH100
    except FileNotFoundError:  # the working folder was removed: nothing can come from it
        return [place for place in places if os.path.isabs(place)]  # noqa: PTH117


if __name__ == "__main__":
    sys.path[0] = _ROOT  # where this file's own folder stands
    from runpy import run_module

    del sys.argv[0]
    run_module(sys.argv[0], run_name="__main__", alter_sys=True)
