// What this installation owns: Pods, and ConfigMaps that stand without their Pod.
//
// A page is one request for Pods, or one for ConfigMaps and those for just their Pods: whatever the
// fleet's size, a call holds a page of it.

import {
  CONFIG_MAPS,
  PODS,
  UID_LABEL,
  createdMs,
  idOf,
  readMark,
  selector,
} from "./cluster.js";
import { classify, failureOf, garbled, isRefusal, ProviderError } from "./failure.js";

const PAGE = 100;

/** One page; `cursor` is what the page before gave as `next`. */
export function list(host, config, place, cursor) {
  if (place !== config.cluster) {
    throw ProviderError.permanent(
      "config",
      `the config has cluster ${config.cluster}, and no place ${place}`,
    );
  }
  // Pods come first.
  const { configMaps, token } = cursor == null ? { configMaps: false, token: null } : read(cursor);
  const page = { items: [], unread: [], next: null };
  let more = null;
  try {
    const found = configMaps
      ? lonelyConfigMaps(host, config, token)
      : objects(host, config, PODS, selector(host.context.installationMark()), token);
    page.items = found.items.map((object) => item(place, object, configMaps ? "configmap" : null));
    more = found.more;
  } catch (error) {
    if (!(error instanceof Unread)) {
      throw error;
    }
    // The rest may be read.
    page.unread.push(error.message);
  }
  if (more !== null) {
    page.next = JSON.stringify({ configMaps, token: more });
  } else if (!configMaps) {
    page.next = JSON.stringify({ configMaps: true, token: null });
  }
  return page;
}

/** A part that could not be read, and that is never taken for empty. */
class Unread extends Error {}

function read(cursor) {
  try {
    const { configMaps, token } = JSON.parse(cursor);
    if (typeof configMaps === "boolean") {
      return { configMaps, token: token ?? null };
    }
  } catch {
    // Told below.
  }
  throw ProviderError.transient("expired", "another revision began this list: it starts anew");
}

function objects(host, config, resource, labelSelector, token) {
  const { cluster, namespace } = config;
  const options = { labelSelector, fieldSelector: "", limit: PAGE, continue: token };
  const asked = `list ${resource.plural} in namespace ${namespace} of cluster ${cluster}`;
  let answer;
  try {
    answer = JSON.parse(host.kubernetes.list(cluster, resource, namespace, options));
  } catch (error) {
    const failure = failureOf(error);
    const classified = classify(asked, failure);
    throw isRefusal(failure) ? new Unread(classified.message) : classified;
  }
  if (!Array.isArray(answer?.items)) {
    // An empty list has items too.
    throw garbled(asked);
  }
  return { items: answer.items, more: answer.metadata?.continue || null };
}

/** Their Pods are asked for after the ConfigMaps were read, so a Pod that came meanwhile counts. */
function lonelyConfigMaps(host, config, token) {
  const ours = selector(host.context.installationMark());
  const { items, more } = objects(host, config, CONFIG_MAPS, ours, token);
  const uids = new Set(items.map(({ metadata }) => metadata.labels[UID_LABEL]).filter(Boolean));
  const withPod = new Set();
  if (uids.size > 0) {
    const theirs = `${ours},${UID_LABEL} in (${[...uids].join(",")})`;
    let goOn = null;
    do {
      const pods = objects(host, config, PODS, theirs, goOn);
      pods.items.forEach(({ metadata }) => withPod.add(metadata.name));
      goOn = pods.more;
    } while (goOn !== null);
  }
  return { items: items.filter(({ metadata }) => !withPod.has(metadata.name)), more };
}

function item(place, object, leftover) {
  const { namespace, name } = object.metadata;
  return {
    id: idOf({ cluster: place, namespace, name }),
    name,
    leftover,
    mark: readMark(object),
    createdMs: createdMs(object),
  };
}
