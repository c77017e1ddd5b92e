"""A failure, classified where it is understood: here, from the API's typed answer.

By code and reason, then by causes, and by words only where there is nothing else: the API gives a
used-up quota no code of its own. What is not understood is transient.
"""

import json

from componentize_py_types import Err
from wit_world.imports import types
from wit_world.imports.kubernetes import Failure
from wit_world.imports.types import ErrorClass


def error(kind: ErrorClass, reason: str, message: str, retry_ms: int | None = None) -> Err:
    """What the operator is told: the class decides what it does, the message names the way out."""
    return Err(types.Error(kind, reason, message, retry_ms, "{}", None))


def not_found(message: str) -> Err:
    return error(ErrorClass.NOT_FOUND, "not-found", message)


def transient(reason: str, message: str, retry_ms: int | None = None) -> Err:
    """May succeed later: tried again with back-off."""
    return error(ErrorClass.TRANSIENT, reason, message, retry_ms)


def permanent(reason: str, message: str, retry_ms: int | None = None) -> Err:
    """Won't succeed until somebody changes something."""
    return error(ErrorClass.PERMANENT, reason, message, retry_ms)


def classify(asked: str, failed: Failure) -> Err:
    """The error for a request; `asked` says which: `create pods a/b in cluster home`."""
    plain = f"{asked}: {failed.message}"
    match failed.kind:
        case "status":
            return _status(plain, failed)
        case "denied":  # The host says what the grant lacks.
            return permanent("forbidden", plain)
        case "name" | "connect" | "cut":
            return transient("unreachable", plain, failed.retry_ms)
        case "timeout":
            return transient("timeout", plain, failed.retry_ms)
        case "tls":
            way_out = "give the certificate's authority in the cluster's kubeconfig"
            return permanent("certificate-invalid", f"{plain}; {way_out}")
        case "credentials":
            way_out = "give the credentials that the grant names"
            return transient("credentials-unavailable", f"{plain}; {way_out}", failed.retry_ms)
        case "too-large":
            return permanent("too-large", f"{plain}; raise the entry's limit on bodies")
        case "invalid":
            return permanent("backend", f"{plain}; a fault of the provider: report it")
        case kind:
            return transient("backend", f"{plain} ({kind})", failed.retry_ms)


def garbled(asked: str) -> Err:
    """An answer came, and it is not what was asked for."""
    told = "the answer is not what was asked for; does something in between answer instead?"
    return transient("backend", f"{asked}: {told}")


def _status(plain: str, failed: Failure) -> Err:
    details = json.loads(failed.details)
    causes = [cause.get("reason") for cause in details.get("causes") or []]
    match failed.code:
        case 400 | 422:
            way_out = "the API server does not take what the config and the Proxy make together"
            return permanent("config", f"{plain}; {way_out}")
        case 401:
            way_out = "renew the credentials where the grant takes them from"
            return permanent("unauthorized", f"{plain}; {way_out}")
        case 403 if "NamespaceTerminating" in causes:
            way_out = "wait until the namespace is gone, and make it again"
            return transient("deleting", f"{plain}; {way_out}", failed.retry_ms)
        case 403 if "exceeded quota: " in failed.message:
            way_out = "raise the quota, or remove what uses it up"
            return error(
                ErrorClass.QUOTA_EXCEEDED, "quota", f"{plain}; {way_out}", failed.retry_ms
            )
        case 403:
            way_out = "allow it by a Role and a RoleBinding, or mend what forbids it"
            return permanent("forbidden", f"{plain}; {way_out}")
        case 404 if details.get("kind") == "namespaces":
            return permanent("namespace-not-found", f"{plain}; create the namespace")
        case 409:
            told = f"{plain}; somebody else changed it: tried again"
            return transient("busy", told, failed.retry_ms)
        case 410:
            return transient("expired", f"{plain}; the list began too long ago: it starts anew")
        case 429:
            return transient("busy", plain, failed.retry_ms)
        case code:
            return transient("backend", f"{plain} (status {code}): tried again", failed.retry_ms)


def health_reason(failed: Failure) -> str:
    """What a failure makes of a place."""
    match failed.kind, failed.code:
        case "denied", _:
            return "forbidden"
        case "timeout", _:
            return "timeout"
        case ("name" | "connect" | "cut"), _:
            return "unreachable"
        case "tls", _:
            return "certificate-invalid"
        case "credentials", _:
            return "credentials-unavailable"
        case "status", 401:
            return "unauthorized"
        case "status", 403:
            return "forbidden"
        case _:
            return "api-error"


def is_not_found(failed: Failure) -> bool:
    """Whether the API says that the object is not there. A 404 without that reason comes from
    elsewhere: a proxy in between, an unknown path."""
    answer = (failed.kind, failed.code, failed.reason)
    of_namespace = json.loads(failed.details).get("kind") == "namespaces"
    return answer == ("status", 404, "NotFound") and not of_namespace


def is_already_exists(failed: Failure) -> bool:
    return (failed.kind, failed.code, failed.reason) == ("status", 409, "AlreadyExists")


def is_refusal(failed: Failure) -> bool:
    """Whether it concerns what was asked for alone, and not the whole cluster."""
    return failed.kind == "denied" or (failed.kind, failed.code) == ("status", 403)
