"""Who this provider is, and what an entry may say."""

import ipaddress
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from componentize_py_types import Err
from wit_world.imports import types

from . import failure

NAME = "{{name}}"

# The networks that are not routed on the Internet.
PRIVATE_NETWORKS = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"]

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": f"Config of {NAME}",
    "type": "object",
    "additionalProperties": False,
    "required": ["cluster", "namespace", "image"],
    "properties": {
        "cluster": {
            "type": "string",
            "minLength": 1,
            "description": "The name of a cluster under grants.kubernetes.clusters: the one place.",
        },
        "namespace": {
            "type": "string",
            "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
            "description": "Where the Pods are made.",
        },
        "image": {
            "type": "string",
            "pattern": "^[^ \\t\\r\\n]+$",
            "description": "A container image that holds Squid, best by digest.",
        },
        "allowedClients": {
            "type": "array",
            "items": {"type": "string"},
            "default": PRIVATE_NETWORKS,
            "description": "Networks that may use the proxies. Everyone is refused.",
        },
    },
    "examples": [
        {"cluster": "home", "namespace": "team-a", "image": "example.com/squid:6"},
        {
            "cluster": "home",
            "namespace": "team-a",
            "image": "example.com/squid:7",
            "allowedClients": ["192.0.2.0/24"],
        },
    ],
}

# One value for each axis on which providers differ; the contract lists them.
PROFILE = {
    "readiness": "immediate",
    "ip-source": "assigned-at-create",
    "gc-mark": "native-labels",
    "created-at": "backend-timestamp",
    "quota": "detected",
    "not-found": "status-404",
    "primary-key": "name-is-key",
    "provisioning-state": "native",
    "secondary-resources": "explicit",
    "backend-test": "cluster-e2e",
}

DESCRIPTION = types.Description(
    name=NAME,
    version="0.1.0",
    contract="{{contract}}",
    profile=json.dumps(PROFILE),
    config_schema=json.dumps(SCHEMA),
)


@dataclass
class Config:
    """What the entry says. Addresses and credentials are no part of it: they stand in the grants."""

    # A cluster of the grant: the only place.
    cluster: str
    namespace: str
    image: str
    allowed_clients: list[str]


def configure(value: Any) -> list[str]:
    """The places, or every fault: someone mends a config once, and not once a fault."""
    config, faults = _read(value)
    if faults:
        raise Err(faults)
    return [config.cluster]


def accepted(value: Any) -> Config:
    """A config that `configure` accepted."""
    config, faults = _read(value)
    if faults:
        told = "; ".join(f"{fault.path}: {fault.message}" for fault in faults)
        raise failure.permanent("config", f"the entry's config is at fault: {told}")
    return config


def _read(value: Any) -> tuple[Config, list[types.Fault]]:
    faults: list[types.Fault] = []

    def fault(path: str, message: str) -> None:
        faults.append(types.Fault(path, message))

    if not isinstance(value, dict):
        fault("", "must be an object")
        return Config("", "", "", []), faults
    for key in value.keys() - SCHEMA["properties"].keys():
        fault(key, f"is not known; known here: {', '.join(SCHEMA['properties'])}")

    def text(key: str, pattern: str, what: str) -> str:
        found = value.get(key)
        if found is None:
            fault(key, f"is missing; give {what}")
        elif not isinstance(found, str) or not re.fullmatch(pattern, found):
            fault(key, f"must be {what}, but is {json.dumps(found)}")
        else:
            return found
        return ""

    config = Config(
        cluster=text("cluster", r".+", "the name of a cluster under grants.kubernetes.clusters"),
        namespace=text(
            "namespace",
            r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
            "the namespace where the Pods are made",
        ),
        image=text("image", r"\S+", "a container image that holds Squid, best by digest"),
        allowed_clients=_networks(value.get("allowedClients"), fault),
    )
    return config, faults


def _networks(value: Any, fault: Callable[[str, str], None]) -> list[str]:
    """Written into Squid's configuration, so nothing but networks pass."""
    if value is None:
        return PRIVATE_NETWORKS
    if not isinstance(value, list):
        fault("allowedClients", "must be a list of networks")
        return []
    for index, text in enumerate(value):
        path = f"allowedClients[{index}]"
        try:
            if not isinstance(text, str) or "/" not in text:
                raise ValueError
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            found = json.dumps(text)
            fault(path, f"must be a network like 10.0.0.0/8 or fd00::/8, but is {found}")
        else:
            if network.prefixlen == 0:
                fault(path, f"{text} is everyone, and an open proxy is found within hours")
    return value
