"""A Pod as the API shows it, and what follows from it: tables without any call."""

from typing import Any

from wit_world.imports.types import State

from . import failure
from .cluster import Location, deleting

Pod = dict[str, Any]


def phase(pod: Pod) -> str:
    """Pending, Running, Ready (Running, and its readiness probe passes), Succeeded, Failed, or
    another word, where its node does not answer or a later Kubernetes has a new one."""
    status = pod.get("status", {})
    now = status.get("phase", "")
    return "Ready" if now == "Running" and _condition(status, "Ready", "True") else now


def _condition(status: dict[str, Any], kind: str, value: str) -> dict[str, Any] | None:
    conditions = status.get("conditions") or []
    found = (it for it in conditions if (it["type"], it["status"]) == (kind, value))
    return next(found, None)


def addresses(pod: Pod) -> list[str]:
    return [it["ip"] for it in pod.get("status", {}).get("podIPs") or []]


def why(pod: Pod) -> tuple[str, str]:
    """Why it is in this state, in Kubernetes' own words: the first of the Pod, the scheduler, the
    container and readiness that says something."""
    status = pod.get("status", {})
    containers = status.get("containerStatuses") or [{}]
    waiting = containers[0].get("state", {}).get("waiting")
    unscheduled = _condition(status, "PodScheduled", "False")
    for source in (status, unscheduled, waiting, _condition(status, "Ready", "False")):
        if source and source.get("reason"):
            return source["reason"], source.get("message", "")
    return "", ""


def may_lack_its_config(pod: Pod) -> bool:
    """Whether the kubelet may be waiting for the ConfigMap: somebody may have removed it since the
    Pod was made, and then it waits for ever."""
    return phase(pod) == "Pending" and why(pod)[0] == "ContainerCreating"


def show(pod: Pod) -> str:
    return ": ".join(part for part in why(pod) if part) or "no reason given"


def is_up(pod: Pod, at: Location) -> bool:
    """The table of create: True for done, False for wait; else it raises."""
    waits_for = deleting(pod)
    if waits_for is not None:
        message = f"Pod {at.id} is being deleted and waits for {waits_for}"
        raise failure.transient("deleting", message)
    match phase(pod):
        case "Pending" | "Running":
            return False
        case "Ready":
            return True
        case "Succeeded" | "Failed":
            message = f"Pod {at.id} has ended and can't be started again ({show(pod)})"
            raise failure.permanent("finished", message)
        case other:
            way_out = "bring its node back, or delete the Pod"
            raise failure.transient("backend", f'Pod {at.id} has phase "{other}": {way_out}')


def state(pod: Pod) -> State:
    """The table of get."""
    if deleting(pod) is not None:
        return State.DELETING
    match phase(pod):
        case "Ready":
            # Running means usable, and nobody can use what has no address.
            return State.RUNNING if addresses(pod) else State.PROVISIONING
        case "Pending" | "Running":
            return State.PROVISIONING
        case _:
            return State.STOPPED
