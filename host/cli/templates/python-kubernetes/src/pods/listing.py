"""What this installation owns: Pods, and ConfigMaps that stand without their Pod.

A page is one request for Pods, or one for ConfigMaps and those for just their Pods: whatever the
fleet's size, a call holds a page of it.
"""

import json
from typing import Any

from componentize_py_types import Err
from wit_world.imports import types
from wit_world.imports.kubernetes import ListOptions, Resource

from . import cluster, failure
from .cluster import CONFIG_MAPS, PODS, UID_LABEL, Location, selector
from .config import Config

PAGE = 100

Objects = list[dict[str, Any]]


class Unread(Exception):
    """A part that could not be read, and that is never taken for empty."""


def page(host: Any, config: Config, place: str, cursor: str | None) -> types.Page:
    """One page; `cursor` is what the page before gave as `next`."""
    if place != config.cluster:
        message = f"the config has cluster {config.cluster}, and no place {place}"
        raise failure.permanent("config", message)
    # Pods come first.
    resource, token = (PODS, None) if cursor is None else _read(cursor)
    ours = selector(host.context.installation_mark())
    items: list[types.Item] = []
    unread: list[str] = []
    more = None
    try:
        if resource == PODS:
            found, more = _objects(host, config, PODS, ours, token)
            items = [_item(place, it, None) for it in found]
        else:
            found, more = _lonely_config_maps(host, config, ours, token)
            items = [_item(place, it, "configmap") for it in found]
    except Unread as part:
        # The rest may be read.
        unread.append(str(part))
    if more is None and resource == CONFIG_MAPS:
        return types.Page(items, unread, None)
    after = resource if more is not None else CONFIG_MAPS
    return types.Page(items, unread, json.dumps({"kind": after.plural, "token": more}))


def _read(cursor: str) -> tuple[Resource, str | None]:
    try:
        match json.loads(cursor):
            case {"kind": "pods", "token": token}:
                return PODS, token
            case {"kind": "configmaps", "token": token}:
                return CONFIG_MAPS, token
    except ValueError:
        pass
    raise failure.transient("expired", "another revision began this list: it starts anew")


def _objects(
    host: Any, config: Config, resource: Resource, labels: str, token: str | None
) -> tuple[Objects, str | None]:
    options = ListOptions(label_selector=labels, field_selector="", limit=PAGE, continue_=token)
    where = f"in namespace {config.namespace} of cluster {config.cluster}"
    asked = f"list {resource.plural} {where}"
    try:
        answer = json.loads(
            host.kubernetes.list(config.cluster, resource, config.namespace, options)
        )
    except Err as err:
        classified = failure.classify(asked, err.value)
        if failure.is_refusal(err.value):
            raise Unread(classified.value.message)
        raise classified
    match answer:
        case {"items": [*items], "metadata": {**metadata}}:
            return items, metadata.get("continue") or None
    # An empty list has items too.
    raise failure.garbled(asked)


def _lonely_config_maps(
    host: Any, config: Config, ours: str, token: str | None
) -> tuple[Objects, str | None]:
    """Their Pods are asked for after the ConfigMaps were read, so a Pod that came meanwhile
    counts."""
    maps, more = _objects(host, config, CONFIG_MAPS, ours, token)
    uids = sorted({uid for it in maps if (uid := it["metadata"]["labels"].get(UID_LABEL))})
    with_pod: set[str] = set()
    go_on = None
    while uids:
        theirs = f"{ours},{UID_LABEL} in ({','.join(uids)})"
        pods, go_on = _objects(host, config, PODS, theirs, go_on)
        with_pod.update(it["metadata"]["name"] for it in pods)
        if go_on is None:
            break
    return [it for it in maps if it["metadata"]["name"] not in with_pod], more


def _item(place: str, found: dict[str, Any], leftover: str | None) -> types.Item:
    at = Location(place, found["metadata"]["namespace"], found["metadata"]["name"])
    mark, created = cluster.read_mark(found), cluster.created_ms(found)
    return types.Item(at.id, at.name, leftover, mark, created)
