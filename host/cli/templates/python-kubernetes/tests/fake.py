"""A Kubernetes API in memory, with the answers of the real one, as far as the provider asks it.

`epo provider test` tries the component against a simulated cluster that knows far more; this one is
for looking at single calls, within milliseconds.
"""

import json
from typing import Any

from componentize_py_types import Err
from pods.config import Config
from wit_world.imports.context import Verdict
from wit_world.imports.kubernetes import Failure, Server

NAME = "proxy-web-inst01-abcdefgh"
UID = "0f0e0d0c-1111-2222-3333-444455556666"
ID = f"home/team-a/{NAME}"

INSTALLATION = [("managed", "true"), ("installation", "inst01")]
MARK = [*INSTALLATION, ("uid", UID), ("incarnation", "1")]


def failure(kind: str = "status", code: int = 0, reason: str = "", message: str = "") -> Err:
    """A failure as the capability raises it."""
    return Err(Failure(kind, code, reason, message, "{}", None, True))


class Fake:
    """Context, clock and cluster in one: the host of `pods`, and what a test looks at."""

    def __init__(self) -> None:
        self.context = self.clock = self.kubernetes = self
        self.config = Config("home", "team-a", "squid:1", ["10.0.0.0/8"])
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.calls: list[str] = []
        # Raised at the first call that begins with the text.
        self.refusal: tuple[str, Err] | None = None
        self.missing_right: str | None = None
        self.made = 0

    def _call(self, what: str) -> None:
        self.calls.append(what)
        if self.refusal and what.startswith(self.refusal[0]):
            _, refusal = self.refusal
            self.refusal = None
            raise refusal

    def _object(self, plural: str, name: str) -> dict[str, Any]:
        try:
            return self.objects[plural, name]
        except KeyError:
            raise failure(code=404, reason="NotFound", message="not found") from None

    # What a kubelet, or an administrator, does.

    def run_pod(self) -> None:
        self.objects["pods", NAME]["status"] = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "podIPs": [{"ip": "10.1.2.3"}],
        }

    def remove(self, plural: str) -> None:
        del self.objects[plural, NAME]

    # Context and clock.

    def mark(self):
        return MARK

    def installation_mark(self):
        return INSTALLATION

    def verify(self, mark):
        return Verdict.THIS_TARGET if mark == MARK else Verdict.FOREIGN

    def now_ms(self) -> int:
        return 1_767_225_600_000

    def monotonic_ms(self) -> int:
        return 0

    # Kubernetes.

    def about(self, cluster):
        self._call("about")
        return Server("v1.36.3", True, "")

    def get(self, cluster, resource, namespace, name):
        self._call(f"get {resource.plural}")
        return json.dumps(self._object(resource.plural, name))

    def list(self, cluster, resource, namespace, options):
        self._call(f"list {resource.plural}")
        found = [it for (plural, _), it in self.objects.items() if plural == resource.plural]
        # One to a page, so that every list has to go on.
        start = int(options.continue_ or 0)
        more = str(start + 1) if start + 1 < len(found) else ""
        return json.dumps({"metadata": {"continue": more}, "items": found[start : start + 1]})

    def allowed(self, cluster, access):
        return f"{access.verb} {access.resource.plural}" != self.missing_right

    def create(self, cluster, resource, namespace, body):
        self._call(f"create {resource.plural}")
        made = json.loads(body)
        key = (resource.plural, made["metadata"]["name"])
        if key in self.objects:
            raise failure(code=409, reason="AlreadyExists")
        self.made += 1
        made["metadata"] |= {
            "uid": f"uid-{self.made}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        made["status"] = {"phase": "Pending"}
        self.objects[key] = made
        return json.dumps(made)

    def patch(self, cluster, resource, namespace, name, kind, body):
        self._call(f"patch {resource.plural}")
        self._object(resource.plural, name)["data"] |= json.loads(body)["data"]
        return "{}"

    def delete(self, cluster, resource, namespace, name, options):
        """Marks it: who wants it gone calls `remove`, as a kubelet would."""
        self._call(f"delete {resource.plural}")
        metadata = self._object(resource.plural, name)["metadata"]
        if metadata["uid"] != options.uid:
            raise failure(code=409, reason="Conflict")
        metadata["deletionTimestamp"] = "2026-01-01T00:00:10Z"
        return "{}"
