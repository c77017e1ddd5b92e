"""The few requests that are made, and whose the answer is."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from componentize_py_types import Err
from wit_world.imports.context import Verdict
from wit_world.imports.kubernetes import DeleteOptions, PatchKind, Resource
from wit_world.imports.types import Target

from . import failure
from .config import Config

PODS = Resource("v1", "pods")
CONFIG_MAPS = Resource("v1", "configmaps")

Mark = list[tuple[str, str]]

PREFIX = "egressproxies.dev/"
UID_LABEL = f"{PREFIX}uid"
# The contract's order of a mark's pairs.
PAIRS = ["managed", "installation", "uid", "incarnation", "namespace", "proxy"]


@dataclass
class Location:
    """Where an instance stands."""

    cluster: str
    namespace: str
    name: str

    @property
    def id(self) -> str:
        return f"{self.cluster}/{self.namespace}/{self.name}"


def locate(target: Target, config: Config) -> Location:
    """By the target's id; without one, by the config. An id outlives the config that it was made
    under: an instance stays where it is when the entry's namespace changes."""
    if target.id is None:
        return Location(config.cluster, config.namespace, target.name)
    match target.id.split("/"):
        case [cluster, namespace, name]:
            at = Location(cluster, namespace, name)
        case _:
            raise failure.permanent(
                "malformed-id",
                f"the id {target.id} is not CLUSTER/NAMESPACE/NAME: this provider has not made it",
            )
    if at.name != target.name:
        raise failure.permanent(
            "foreign",
            f"the id {target.id} names {at.name}, but this Proxy's instance is {target.name}",
        )
    if at.cluster != config.cluster:
        raise failure.permanent(
            "config",
            f"the instance {target.id} stands in cluster {at.cluster}, but the entry's config says "
            f"{config.cluster}; put the cluster back, and make an entry of its own for the other one",
        )
    return at


def find(host: Any, kind: str, resource: Resource, at: Location) -> dict[str, Any] | None:
    """What stands at our name, if it is ours by name, mark and UID; None where nothing stands.

    Only what came from here may be changed or destroyed. Anything else there is `foreign`: nothing
    is touched until somebody has looked.
    """
    try:
        found = json.loads(host.kubernetes.get(at.cluster, resource, at.namespace, at.name))
    except Err as err:
        if failure.is_not_found(err.value):
            return None
        raise failure.classify(_one("get", resource, at), err.value)
    match found:
        case {"metadata": {"name": at.name}}:
            pass
        case _:
            # What has not even our name is no stranger's object: it is none.
            raise failure.garbled(_one("get", resource, at))
    mark = read_mark(found)
    if host.context.verify(mark) != Verdict.THIS_TARGET:
        raise failure.permanent(
            "foreign",
            f"{kind} {at.id} bears {_show(mark)}, not {_show(host.context.mark())}; remove it, or "
            "give it back its labels if it is this Proxy's",
        )
    return found


def make(host: Any, resource: Resource, at: Location, body: dict[str, Any]) -> bool:
    """Makes an object; False where one of that name is there already."""
    try:
        host.kubernetes.create(at.cluster, resource, at.namespace, json.dumps(body))
        return True
    except Err as err:
        if failure.is_already_exists(err.value):
            return False
        raise failure.classify(_one("create", resource, at), err.value)


def rewrite(host: Any, at: Location, found: dict[str, Any], data: dict[str, str]) -> None:
    """Writes the data of our ConfigMap anew, unless somebody changed it since it was read."""
    version = found["metadata"]["resourceVersion"]
    body = json.dumps({"metadata": {"resourceVersion": version}, "data": data})
    try:
        host.kubernetes.patch(
            at.cluster, CONFIG_MAPS, at.namespace, at.name, PatchKind.MERGE, body
        )
    except Err as err:
        raise failure.classify(_one("patch", CONFIG_MAPS, at), err.value)


def destroy(host: Any, resource: Resource, at: Location, found: dict[str, Any]) -> None:
    """Deletes what was read back as ours, and no successor of it. Gone already is well."""
    only = DeleteOptions(uid=found["metadata"]["uid"], resource_version=None, grace_seconds=None)
    try:
        host.kubernetes.delete(at.cluster, resource, at.namespace, at.name, only)
    except Err as err:
        if not failure.is_not_found(err.value):
            raise failure.classify(_one("delete", resource, at), err.value)


def _one(verb: str, resource: Resource, at: Location) -> str:
    return f"{verb} {resource.plural} {at.namespace}/{at.name} in cluster {at.cluster}"


def deleting(found: dict[str, Any]) -> str | None:
    """What an object that is being deleted waits for; None where it is not."""
    metadata = found["metadata"]
    if "deletionTimestamp" not in metadata:
        return None
    if finalizers := metadata.get("finalizers"):
        return f"its finalizers {', '.join(finalizers)}"
    if node := found.get("spec", {}).get("nodeName"):
        return f"node {node} to end its containers"
    return "the API server"


def labels(mark: Mark) -> dict[str, str]:
    """The mark as labels."""
    return {PREFIX + key: value for key, value in mark}


def selector(mark: Mark) -> str:
    """The label selector of everything that bears these pairs."""
    return ",".join(f"{PREFIX}{key}={value}" for key, value in mark)


def read_mark(found: dict[str, Any]) -> Mark:
    """The mark in an object's labels."""
    borne = found["metadata"].get("labels") or {}
    return [(key, borne[PREFIX + key]) for key in PAIRS if PREFIX + key in borne]


def _show(mark: Mark) -> str:
    return " ".join(f"{key}={value}" for key, value in mark) or "no mark"


def created_ms(found: dict[str, Any]) -> int | None:
    stamp = found["metadata"].get("creationTimestamp")
    return int(datetime.fromisoformat(stamp).timestamp() * 1000) if stamp else None
