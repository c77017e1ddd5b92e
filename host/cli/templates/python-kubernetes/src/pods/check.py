"""Whether the cluster could serve a create: it answers, and lets us do what we do."""

import json
from typing import Any

from componentize_py_types import Err
from wit_world.imports.kubernetes import Access
from wit_world.imports.types import Health

from . import failure
from .cluster import CONFIG_MAPS, PODS
from .config import Config

# What the provider does.
RIGHTS = [
    (PODS, ["get", "list", "create", "delete"]),
    (CONFIG_MAPS, ["get", "list", "create", "patch", "delete"]),
]


def health(host: Any, config: Config, place: str) -> Health:
    details: dict[str, Any] = {}

    def unready(reason: str, message: str) -> Health:
        return Health(False, reason, message, json.dumps(details))

    if place != config.cluster:
        message = f"the config has cluster {config.cluster}, and no place {place}"
        return unready("api-error", message)
    start = host.clock.monotonic_ms()
    try:
        server = host.kubernetes.about(place)
    except Err as err:
        told = failure.classify(f"reach cluster {place}", err.value).value.message
        return unready(failure.health_reason(err.value), told)
    details["serverVersion"] = server.version
    details["latencyMs"] = host.clock.monotonic_ms() - start
    within = f"in namespace {config.namespace}"
    rights: list[str] = []
    grants: list[str] = []
    for resource, verbs in RIGHTS:
        for verb in verbs:
            try:
                access = Access(verb, resource, config.namespace)
                if not host.kubernetes.allowed(place, access):
                    rights.append(f"{verb} {resource.plural}")
            except Err as err:
                if err.value.kind != "denied":
                    asked = f"{verb} {resource.plural} {within} of cluster {place}"
                    told = failure.classify(asked, err.value).value.message
                    return unready(failure.health_reason(err.value), told)
                grants.append(f"{verb} {resource.plural}")
    missing = []
    if grants:
        details["missingGrants"] = ", ".join(grants)
        missing.append(
            f"the grant does not reach: {details['missingGrants']} {within}; add rules under "
            f"grants.kubernetes.clusters.{place}.rules"
        )
    if rights:
        details["missingRights"] = ", ".join(rights)
        missing.append(
            f"{server.user or 'the identity of the entry'} may not: {details['missingRights']} "
            f"{within}; allow it by a Role and a RoleBinding"
        )
    if missing:
        return unready("rights-missing", "; ".join(missing))
    return Health(True, "reachable", f"Kubernetes {server.version}", json.dumps(details))
