// The few requests that are made, and whose the answer is.

import {
  classify,
  failureOf,
  garbled,
  isAlreadyExists,
  isNotFound,
  ProviderError,
} from "./failure.js";

export const PODS = { apiVersion: "v1", plural: "pods" };
export const CONFIG_MAPS = { apiVersion: "v1", plural: "configmaps" };

const PREFIX = "egressproxies.dev/";

/** Where an instance stands. Its id is `CLUSTER/NAMESPACE/NAME`. */
export const idOf = ({ cluster, namespace, name }) => `${cluster}/${namespace}/${name}`;

/**
 * By the target's id; without one, by the config. An id outlives the config that it was made under:
 * an instance stays where it is when the entry's namespace changes.
 */
export function locate(target, config) {
  if (target.id == null) {
    return { cluster: config.cluster, namespace: config.namespace, name: target.name };
  }
  const [cluster, namespace, name, ...more] = target.id.split("/");
  if (!name || more.length > 0) {
    throw ProviderError.permanent(
      "malformed-id",
      `the id ${target.id} is not CLUSTER/NAMESPACE/NAME: this provider has not made it`,
    );
  }
  if (name !== target.name) {
    throw ProviderError.permanent(
      "foreign",
      `the id ${target.id} names ${name}, but this Proxy's instance is ${target.name}`,
    );
  }
  if (cluster !== config.cluster) {
    throw ProviderError.permanent(
      "config",
      `the instance ${target.id} stands in cluster ${cluster}, but the entry's config says ` +
        `${config.cluster}; put the cluster back, and make an entry of its own for the other one`,
    );
  }
  return { cluster, namespace, name };
}

/**
 * What stands at our name, if it is ours by name, mark and UID; undefined where nothing stands. Only
 * what came from here may be changed or destroyed. Anything else there is `foreign`: nothing is
 * touched until somebody has looked.
 */
export function find(host, kind, resource, at) {
  let object;
  try {
    object = JSON.parse(host.kubernetes.get(at.cluster, resource, at.namespace, at.name));
  } catch (error) {
    const failure = failureOf(error);
    if (isNotFound(failure)) {
      return undefined;
    }
    throw classify(one("get", resource, at), failure);
  }
  if (object?.metadata?.name !== at.name) {
    // What has not even our name is no stranger's object: it is none.
    throw garbled(one("get", resource, at));
  }
  const mark = readMark(object);
  if (host.context.verify(mark) !== "this-target") {
    throw ProviderError.permanent(
      "foreign",
      `${kind} ${idOf(at)} bears ${show(mark)}, not ${show(host.context.mark())}; remove it, or ` +
        "give it back its labels if it is this Proxy's",
    );
  }
  return object;
}

/** Makes an object; false where one of that name is there already. */
export function make(host, resource, at, body) {
  try {
    host.kubernetes.create(at.cluster, resource, at.namespace, JSON.stringify(body));
    return true;
  } catch (error) {
    const failure = failureOf(error);
    if (isAlreadyExists(failure)) {
      return false;
    }
    throw classify(one("create", resource, at), failure);
  }
}

/** Writes the data of our ConfigMap anew, unless somebody changed it since it was read. */
export function rewrite(host, at, found, data) {
  const body = { metadata: { resourceVersion: found.metadata.resourceVersion }, data };
  const { cluster, namespace, name } = at;
  try {
    host.kubernetes.patch(cluster, CONFIG_MAPS, namespace, name, "merge", JSON.stringify(body));
  } catch (error) {
    throw classify(one("patch", CONFIG_MAPS, at), failureOf(error));
  }
}

/** Deletes what was read back as ours, and no successor of it. Gone already is well. */
export function destroy(host, resource, at, found) {
  const only = { uid: found.metadata.uid, resourceVersion: null, graceSeconds: null };
  try {
    host.kubernetes.delete(at.cluster, resource, at.namespace, at.name, only);
  } catch (error) {
    const failure = failureOf(error);
    if (!isNotFound(failure)) {
      throw classify(one("delete", resource, at), failure);
    }
  }
}

const one = (verb, resource, { cluster, namespace, name }) =>
  `${verb} ${resource.plural} ${namespace}/${name} in cluster ${cluster}`;

/** What an object that is being deleted waits for; undefined where it is not. */
export function deleting({ metadata, spec }) {
  if (metadata.deletionTimestamp === undefined) {
    return undefined;
  }
  if (metadata.finalizers?.length > 0) {
    return `its finalizers ${metadata.finalizers.join(", ")}`;
  }
  return spec?.nodeName ? `node ${spec.nodeName} to end its containers` : "the API server";
}

/** The mark as labels. */
export const labels = (mark) =>
  Object.fromEntries(mark.map(([key, value]) => [PREFIX + key, value]));

/** The label selector of everything that bears these pairs. */
export const selector = (mark) => mark.map(([key, value]) => `${PREFIX}${key}=${value}`).join(",");

export const UID_LABEL = `${PREFIX}uid`;

/** The contract's order of a mark's pairs. */
const PAIRS = ["managed", "installation", "uid", "incarnation", "namespace", "proxy"];

/** The mark in an object's labels. */
export function readMark({ metadata }) {
  const found = metadata.labels ?? {};
  return PAIRS.filter((key) => PREFIX + key in found).map((key) => [key, found[PREFIX + key]]);
}

const show = (mark) =>
  mark.length === 0 ? "no mark" : mark.map(([key, value]) => `${key}=${value}`).join(" ");

export function createdMs({ metadata }) {
  const ms = Date.parse(metadata.creationTimestamp);
  return Number.isNaN(ms) ? null : ms;
}
