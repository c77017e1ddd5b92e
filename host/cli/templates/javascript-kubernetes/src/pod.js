// A Pod as the API shows it, and what follows from it: tables without any call.

import { deleting, idOf } from "./cluster.js";
import { ProviderError } from "./failure.js";

/**
 * What a Pod is doing: Pending, Running, Ready (Running, and its readiness probe passes), Succeeded,
 * Failed, or another word, where its node does not answer or a later Kubernetes has a new one.
 */
export function phase({ status = {} }) {
  const ready = status.conditions?.some(({ type, status }) => type === "Ready" && status === "True");
  return status.phase === "Running" && ready ? "Ready" : (status.phase ?? "");
}

export const addresses = ({ status = {} }) => (status.podIPs ?? []).map(({ ip }) => ip);

/**
 * Why it is in this state, in Kubernetes' own words: the first of the Pod, the scheduler, the
 * container and readiness that says something.
 */
export function why({ status = {} }) {
  const failed = (kind) =>
    status.conditions?.find(({ type, status }) => type === kind && status === "False");
  const waiting = status.containerStatuses?.[0]?.state?.waiting;
  const sources = [status, failed("PodScheduled"), waiting, failed("Ready")];
  const told = sources.find((source) => source?.reason);
  return { reason: told?.reason ?? "", message: told?.message ?? "" };
}

/**
 * Whether the kubelet may be waiting for the ConfigMap: somebody may have removed it since the Pod
 * was made, and then it waits for ever.
 */
export const mayLackItsConfig = (pod) =>
  phase(pod) === "Pending" && why(pod).reason === "ContainerCreating";

export function show({ reason, message }) {
  return [reason, message].filter(Boolean).join(": ") || "no reason given";
}

/** The table of create: true for done, false for wait; else it throws. */
export function isUp(pod, at) {
  const waitsFor = deleting(pod);
  if (waitsFor !== undefined) {
    throw ProviderError.transient(
      "deleting",
      `Pod ${idOf(at)} is being deleted and waits for ${waitsFor}`,
    );
  }
  switch (phase(pod)) {
    case "Pending":
    case "Running":
      return false;
    case "Ready":
      return true;
    case "Succeeded":
    case "Failed":
      throw ProviderError.permanent(
        "finished",
        `Pod ${idOf(at)} has ended and can't be started again (${show(why(pod))})`,
      );
    default:
      throw ProviderError.transient(
        "backend",
        `Pod ${idOf(at)} has phase "${phase(pod)}": bring its node back, or delete the Pod`,
      );
  }
}

/** The table of get. */
export function state(pod) {
  if (deleting(pod) !== undefined) {
    return "deleting";
  }
  switch (phase(pod)) {
    case "Ready": // Running means usable, and nobody can use what has no address.
      return addresses(pod).length > 0 ? "running" : "provisioning";
    case "Pending":
    case "Running":
      return "provisioning";
    default:
      return "stopped";
  }
}
