"""create, get and delete: each reads what stands there, and makes at most one step."""

import json
from typing import Any

from wit_world.imports import types
from wit_world.imports.types import Created_Done, Created_Pending, Deleted_Done, Deleted_Pending

from . import cluster, failure, manifest, pod
from .cluster import CONFIG_MAPS, PODS, Location, deleting, locate
from .config import NAME, Config


def create(
    host: Any, config: Config, target: types.Target, spec: dict[str, Any], user_data: bytes
) -> types.Created:
    """One step towards a Pod that runs."""
    _refuse(spec, user_data)
    at = locate(target, config)
    if target.id is None:
        # Where it goes is the config's to say, and the config may be another by the next call. The
        # host keeps the id before anything is made that only the id finds.
        return _pending(at, 100, "starts")
    mark = host.context.mark()
    config_map = manifest.config_map(at, config, mark, spec["port"])
    found = cluster.find(host, "Pod", PODS, at)
    if found is None:
        return _make_both(host, at, config_map, manifest.pod(at, config, mark, spec["port"]))
    if pod.is_up(found, at):
        return Created_Done(at.id)
    if pod.may_lack_its_config(found):
        _ensure_config_map(host, at, config_map)
    # A Pod is up within seconds; one that is not waits for somebody.
    young = host.clock.now_ms() - (cluster.created_ms(found) or 0) < 20_000
    return _pending(at, 500 if young else 5_000, pod.show(found))


def _refuse(spec: dict[str, Any], user_data: bytes) -> None:
    """What can't be honoured is refused before any call: ignoring it would make something else."""
    if user_data:
        message = "spec.cloudInit is set, but a Pod runs no cloud-init; remove it"
        raise failure.permanent("unsupported", message)
    for field, value in (spec.get("placement") or {}).items():
        if value is not None:
            raise failure.permanent(
                "placement",
                f"spec.placement.{field} is set, but {NAME} honours no placement; remove it",
            )


def _make_both(
    host: Any, at: Location, config_map: dict[str, Any], wanted: dict[str, Any]
) -> types.Created:
    """The ConfigMap first, since the Pod mounts it. Both bear the mark, so whatever is cut off here
    is listed."""
    _ensure_config_map(host, at, config_map)
    if cluster.make(host, PODS, at, wanted):
        return _pending(at, 500, "Pod created")
    # Whose it is, the next look says.
    return _pending(at, 100, "a Pod of that name came meanwhile")


def _ensure_config_map(host: Any, at: Location, wanted: dict[str, Any]) -> None:
    """Makes the ConfigMap, or takes up one that an earlier call left: another revision, or another
    config, may have written that."""
    found = cluster.find(host, "ConfigMap", CONFIG_MAPS, at)
    if found is None:
        if not cluster.make(host, CONFIG_MAPS, at, wanted):
            message = f"a ConfigMap {at.id} came meanwhile: looked at again"
            raise failure.transient("busy", message)
        return
    waits_for = deleting(found)
    if waits_for is not None:
        message = f"ConfigMap {at.id} is being deleted and waits for {waits_for}"
        raise failure.transient("deleting", message)
    if found.get("data") != wanted["data"]:
        cluster.rewrite(host, at, found, wanted["data"])


def _pending(at: Location, poll_ms: int, message: str) -> types.Created:
    return Created_Pending(types.Pending(at.id, "", poll_ms, message))


def get(host: Any, config: Config, target: types.Target) -> types.Instance:
    """What the cluster shows now."""
    at = locate(target, config)
    found = cluster.find(host, "Pod", PODS, at)
    if found is None:
        raise failure.not_found(f"there is no Pod {at.id}")
    now = pod.state(found)
    ips = pod.addresses(found) if now == types.State.RUNNING else []
    node = found.get("spec", {}).get("nodeName")
    reason, message = pod.why(found)
    return types.Instance(
        id=at.id,
        state=now,
        addresses=[types.Address("internal", ip) for ip in ips],
        mark=cluster.read_mark(found),
        created_ms=cluster.created_ms(found),
        reason=reason,
        message=message,
        details=json.dumps({"node": node} if node else {}),
    )


def delete(host: Any, config: Config, target: types.Target) -> types.Deleted:
    """One step towards nothing.

    Both objects are read before either is touched: where one is not ours, somebody has to look
    first. What was deleted just now may still stand, so only a look that finds neither is done.
    """
    at = locate(target, config)
    ours = [
        (kind, resource, found)
        for kind, resource in (("Pod", PODS), ("ConfigMap", CONFIG_MAPS))
        if (found := cluster.find(host, kind, resource, at)) is not None
    ]
    if not ours:
        return Deleted_Done()
    told = []
    for kind, resource, found in ours:
        waits_for = deleting(found)
        if waits_for is None:
            cluster.destroy(host, resource, at, found)
            told.append(f"{kind} deleted")
        else:
            told.append(f"{kind} waits for {waits_for}")
    return Deleted_Pending(types.Pending(None, "", 1_000, "; ".join(told)))
