"""How tests are dealt out: a file at a time, or all files of a folder together; a worker that dies is one failure."""

from contextlib import suppress

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

# Each of these is one worker's: what their tests share (a Slurm, a PostgreSQL, a Prometheus, a browser, parsed code)
# is made once.
_BROWSER = ("axe", "browser", "first_hour", "odd_names", "pictures", "reach", "sign_in", "site_browser")
_CODE = ("architecture", "declared", "reach", "secrets", "waiting", "words")
TOGETHER = (
    ("tests/dashboards/grafana/",),
    ("tests/collector/registry/",),
    ("tests/collector/schedulers/slurm/",),
    ("tests/collector/tenancy/",),
    (*(f"tests/dashboards/test_{name}.py" for name in _BROWSER), "tests/test_browser_thread.py"),
    tuple(f"tests/test_{name}.py" for name in _CODE),
)
_WAITING_MOST = 2  # a worker begins a test when it knows the next one, or that there is none


def unit(nodeid: str) -> str:
    """Return what one worker takes at a time: the file of a test, or the first of those that are to stay together."""
    path = nodeid.partition("::")[0]
    return next((paths[0] for paths in TOGETHER if path.startswith(paths)), path)


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist is not typed
    """Deals out units.

    As xdist has it, a test in which a worker dies is given to the next worker, which dies of it, and so on; a worker
    that comes late waits for ever with a unit of one test, so that the run does not end; and one that has not collected
    yet is given tests, which ends the run.
    """

    def remove_node(self, node: WorkerController) -> str | None:
        """Give to others what this worker did not come to; return the test in which it died, if it died in one."""
        pending = {
            name: left
            for name, tests in self.assigned_work.pop(node).items()
            if (left := {test: False for test, is_done in tests.items() if not is_done})
        }
        died_in = next((test for tests in pending.values() for test in tests), None)
        for name, tests in pending.items():
            if left := {test: False for test in tests if test != died_in}:
                self.workqueue[name] = left
        for each in list(self.assigned_work):
            self._reschedule(each)
        return died_in

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        while (
            node in self.registered_collections
            and not node.shutting_down
            and self._pending_of(self.assigned_work[node]) <= _WAITING_MOST
        ):
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        with suppress(OSError):  # it died too, which is told in a moment; then all that it had goes to others
            super()._assign_work_unit(node)
