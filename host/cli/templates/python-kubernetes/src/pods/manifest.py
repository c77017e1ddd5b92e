"""What an instance is made of.

The Pod keeps the restricted Pod Security level: no root, no capabilities, a read-only file system,
no token.
"""

from typing import Any

from .cluster import Location, Mark, labels
from .config import Config

SQUID_CONF = "squid.conf"
CONFIG_DIR = "/etc/egress-proxy"
# The user `proxy` of Debian's and Ubuntu's Squid.
SQUID_USER = 13


def _metadata(at: Location, mark: Mark) -> dict[str, Any]:
    """The mark goes into the very call that makes the object."""
    return {"name": at.name, "namespace": at.namespace, "labels": labels(mark)}


def config_map(at: Location, config: Config, mark: Mark, port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(at, mark),
        "data": {SQUID_CONF: _squid_conf(at, config, port)},
    }


def pod(at: Location, config: Config, mark: Mark, port: int) -> dict[str, Any]:
    probe = {"tcpSocket": {"port": port}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(at, mark),
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 8,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": SQUID_USER,
                "runAsGroup": SQUID_USER,
                "seccompProfile": {"type": "RuntimeDefault"},
                # Without it nobody but root may listen below 1024.
                "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}],
            },
            "containers": [
                {
                    "name": "squid",
                    "image": config.image,
                    "command": ["/usr/sbin/squid", "-N", "-d1", "-f", f"{CONFIG_DIR}/{SQUID_CONF}"],
                    "ports": [{"name": "proxy", "containerPort": port}],
                    "resources": {
                        "requests": {"cpu": "10m", "memory": "32Mi"},
                        "limits": {"memory": "256Mi"},
                    },
                    "startupProbe": {**probe, "periodSeconds": 1, "failureThreshold": 60},
                    "readinessProbe": {**probe, "periodSeconds": 5},
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [
                        {"name": "config", "mountPath": CONFIG_DIR, "readOnly": True},
                        {"name": "tmp", "mountPath": "/tmp"},
                    ],
                }
            ],
            "volumes": [
                {"name": "config", "configMap": {"name": at.name}},
                {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            ],
        },
    }


def _squid_conf(at: Location, config: Config, port: int) -> str:
    """Keeps nothing: no cache, no log, no pid file. Reaches neither its own Pod nor link-local
    addresses, where clouds hand out a node's credentials."""
    clients = " ".join(config.allowed_clients)
    lines = [
        f"http_port {port}",
        f"visible_hostname {at.name}",
        f"acl clients src {clients}" if clients else "",
        "acl tunnel method CONNECT",
        "acl tunnel_ports port 443",
        "acl inside dst 0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 ::1/128 fe80::/10",
        "http_access deny manager",
        "http_access deny tunnel !tunnel_ports",
        "http_access deny inside",
        "http_access allow clients" if clients else "",
        "http_access deny all",
        "access_log none",
        "cache_log /dev/null",
        "cache deny all",
        "pid_filename none",
        "coredump_dir none",
        "netdb_filename none",
        "pinger_enable off",
        "max_filedescriptors 16384",
        "via off",
        "forwarded_for delete",
        "shutdown_lifetime 3 seconds",
    ]
    return "".join(f"{line}\n" for line in lines if line)
