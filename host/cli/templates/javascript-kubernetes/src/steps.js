// create, get and delete: each reads what stands there, and makes at most one step.

import {
  CONFIG_MAPS,
  PODS,
  createdMs,
  deleting,
  destroy,
  find,
  idOf,
  locate,
  make,
  readMark,
  rewrite,
} from "./cluster.js";
import { NAME } from "./config.js";
import { ProviderError } from "./failure.js";
import * as manifest from "./manifest.js";
import { addresses, isUp, mayLackItsConfig, show, state, why } from "./pod.js";

/** One step towards a Pod that runs. */
export function create(host, config, target, spec, userData) {
  refuse(spec, userData);
  const at = locate(target, config);
  if (target.id == null) {
    // Where it goes is the config's to say, and the config may be another by the next call. The host
    // keeps the id before anything is made that only the id finds.
    return pending(at, 100, "starts");
  }
  const mark = host.context.mark();
  const wanted = {
    configMap: manifest.configMap(at, config, mark, spec.port),
    pod: manifest.pod(at, config, mark, spec.port),
  };
  const pod = find(host, "Pod", PODS, at);
  if (pod === undefined) {
    return makeBoth(host, at, wanted);
  }
  if (isUp(pod, at)) {
    return { tag: "done", val: idOf(at) };
  }
  if (mayLackItsConfig(pod)) {
    ensureConfigMap(host, at, wanted.configMap);
  }
  // A Pod is up within seconds; one that is not waits for somebody.
  const young = host.clock.nowMs() - createdMs(pod) < 20_000;
  return pending(at, young ? 500 : 5_000, show(why(pod)));
}

/** What can't be honoured is refused before any call: ignoring it would make something else. */
function refuse(spec, userData) {
  if (userData.length > 0) {
    throw ProviderError.permanent(
      "unsupported",
      "spec.cloudInit is set, but a Pod runs no cloud-init; remove it",
    );
  }
  const placement = Object.entries(spec.placement ?? {});
  const [field] = placement.find(([, value]) => value !== null) ?? [];
  if (field !== undefined) {
    throw ProviderError.permanent(
      "placement",
      `spec.placement.${field} is set, but ${NAME} honours no placement; remove it`,
    );
  }
}

/**
 * The ConfigMap first, since the Pod mounts it. Both bear the mark, so whatever is cut off here is
 * listed.
 */
function makeBoth(host, at, wanted) {
  ensureConfigMap(host, at, wanted.configMap);
  // Whose it is that came meanwhile, the next look says.
  return make(host, PODS, at, wanted.pod)
    ? pending(at, 500, "Pod created")
    : pending(at, 100, "a Pod of that name came meanwhile");
}

/**
 * Makes the ConfigMap, or takes up one that an earlier call left: another revision, or another
 * config, may have written that.
 */
function ensureConfigMap(host, at, wanted) {
  const found = find(host, "ConfigMap", CONFIG_MAPS, at);
  if (found === undefined) {
    if (!make(host, CONFIG_MAPS, at, wanted)) {
      const message = `a ConfigMap ${idOf(at)} came meanwhile: looked at again`;
      throw ProviderError.transient("busy", message);
    }
    return;
  }
  const waitsFor = deleting(found);
  if (waitsFor !== undefined) {
    throw ProviderError.transient(
      "deleting",
      `ConfigMap ${idOf(at)} is being deleted and waits for ${waitsFor}`,
    );
  }
  const same = Object.keys(wanted.data).every((key) => found.data?.[key] === wanted.data[key]);
  if (!same) {
    rewrite(host, at, found, wanted.data);
  }
}

const pending = (at, pollMs, message) => ({
  tag: "pending",
  val: { id: idOf(at), progress: "", pollMs, message },
});

/** What the cluster shows now. */
export function get(host, config, target) {
  const at = locate(target, config);
  const pod = find(host, "Pod", PODS, at);
  if (pod === undefined) {
    throw ProviderError.notFound(`there is no Pod ${idOf(at)}`);
  }
  const now = state(pod);
  const node = pod.spec?.nodeName;
  return {
    id: idOf(at),
    state: now,
    addresses: now === "running" ? addresses(pod).map((ip) => ({ kind: "internal", ip })) : [],
    mark: readMark(pod),
    createdMs: createdMs(pod),
    ...why(pod),
    details: JSON.stringify(node ? { node } : {}),
  };
}

/**
 * One step towards nothing. Both objects are read before either is touched: where one is not ours,
 * somebody has to look first. What was deleted just now may still stand, so only a look that finds
 * neither is done.
 */
export function remove(host, config, target) {
  const at = locate(target, config);
  const kinds = [
    ["Pod", PODS],
    ["ConfigMap", CONFIG_MAPS],
  ];
  const ours = kinds
    .map(([kind, resource]) => ({ kind, resource, found: find(host, kind, resource, at) }))
    .filter(({ found }) => found !== undefined);
  if (ours.length === 0) {
    return { tag: "done" };
  }
  const told = ours.map(({ kind, resource, found }) => {
    const waitsFor = deleting(found);
    if (waitsFor !== undefined) {
      return `${kind} waits for ${waitsFor}`;
    }
    destroy(host, resource, at, found);
    return `${kind} deleted`;
  });
  return {
    tag: "pending",
    val: { id: null, progress: "", pollMs: 1_000, message: told.join("; ") },
  };
}
