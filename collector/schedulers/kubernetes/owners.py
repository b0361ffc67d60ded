"""Who made a pod, and who made that: the object that people know by name, up to the top."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.schedulers.kubernetes.api import AnswerError, Api
from collector.schedulers.kubernetes.fields import Json, objects, text, texts
from collector.schedulers.kubernetes.pod import Owner, Pod, controller

_LOG = logging.getLogger(__name__)
_DEPTH_MAX = 8
_QUESTIONS_MAX = 500  # in one poll; pods whose owners are not known yet then wait for the next
_NOT_TOLD = (403, 404, 405)
# A pod of the node's own disk belongs to nobody else: its owner is the node.
_NO_RUN = frozenset({"Node"})


@dataclass(frozen=True, slots=True)
class Top:
    """The top-level owner: whose uid is the run's, and its name. A pod without an owner is its own."""

    uid: str
    name: str
    kind: str
    labels: Mapping[str, str] = field(default_factory=dict)
    submission: str | None = None  # of a RayJob: Ray's own id of the job that it submitted


@dataclass(frozen=True, slots=True)
class _Seen:
    """What an owner's own object says; `above` is who made it."""

    above: Owner | None
    labels: Mapping[str, str]
    submission: str | None


class Owners:
    """Looks owners up, each once for as long as a pod refers to it. Who may not be read, or is gone, is the top."""

    def __init__(self, api: Api, most: int = _QUESTIONS_MAX) -> None:
        self._api = api
        self._most = most
        self._seen: dict[str, _Seen] = {}
        self._plurals: dict[str, dict[str, tuple[str, bool]]] = {}
        self._used: set[str] = set()
        self._left = 0
        self.exhausted = False  # whether this poll had more questions than it may ask
        self._untold: set[str] = set()

    def begin(self) -> None:
        """Begin a poll: forget owners that the last one did not meet."""
        self._seen = {uid: seen for uid, seen in self._seen.items() if uid in self._used}
        self._used = set()
        self._plurals = {}
        self._left = self._most
        self.exhausted = False

    def top(self, pod: Pod) -> Top | None:
        """Return the top-level owner of a pod, or None where it is not known yet.

        Raises:
            SchedulerError: the server did not answer.
        """
        if pod.owner is None or pod.owner.kind in _NO_RUN:
            return Top(pod.uid, pod.name, "Pod")
        return self.above(pod.owner, pod.namespace)

    def above(self, owner: Owner, namespace: str) -> Top | None:
        """Return the top-level owner from an owner upwards, or None where it is not known yet.

        Raises:
            SchedulerError: the server did not answer.
        """
        labels: dict[str, str] = {}
        submission: str | None = None
        for _ in range(_DEPTH_MAX):
            seen = self._look(owner, namespace)
            if seen is None:
                return None
            labels = dict(seen.labels) | labels  # who is nearer to the pod says more
            submission = submission or seen.submission
            if seen.above is None or seen.above.kind in _NO_RUN:
                break
            owner = seen.above
        return Top(owner.uid, owner.name, owner.kind, labels, submission)

    def _look(self, owner: Owner, namespace: str) -> _Seen | None:
        self._used.add(owner.uid)
        if owner.uid in self._seen:
            return self._seen[owner.uid]
        if self._left <= 0:
            self.exhausted = True
            return None
        self._left -= 1
        thing = self._asked(owner, namespace)
        if thing is None or text(thing, "metadata", "uid") != owner.uid:
            seen = _Seen(None, {}, None)
        else:
            ray = text(thing, "status", "jobId") if owner.kind == "RayJob" else None
            seen = _Seen(controller(thing), texts(thing, "metadata", "labels"), ray)
            if owner.kind == "RayJob" and ray is None:
                return seen  # Ray's id comes a moment after its pods
        self._seen[owner.uid] = seen
        return seen

    def _asked(self, owner: Owner, namespace: str) -> Json | None:
        root = f"/apis/{owner.api_version}" if "/" in owner.api_version else f"/api/{owner.api_version}"
        try:
            plural, namespaced = self._plural(root, owner.kind)
            within = f"/namespaces/{namespace}" if namespaced else ""
            return self._api.get(f"{root}{within}/{plural}/{owner.name}")
        except AnswerError as error:
            if error.status not in _NOT_TOLD:
                raise
            self._tell(f"{owner.kind} of {owner.api_version}", error)
            return None

    def _plural(self, root: str, kind: str) -> tuple[str, bool]:
        """Return the name by which a kind is asked for, and whether it lives in a namespace; the server knows."""
        if root not in self._plurals:
            found = objects(self._api.get(root), "resources")
            named = {(text(one, "kind"), text(one, "name")): one.get("namespaced") is not False for one in found}
            self._plurals[root] = {
                kind: (name, namespaced)
                for (kind, name), namespaced in named.items()
                if kind and name and "/" not in name
            }
        if kind not in self._plurals[root]:
            raise AnswerError(404, f"{root} has no {kind}")
        return self._plurals[root][kind]

    def _tell(self, what: str, error: AnswerError) -> None:
        if error.status == 404 or what in self._untold:
            return  # gone, as happens
        self._untold.add(what)
        _LOG.warning("what owns a %s is not known, so that it counts as the run itself: %s", what, error)
