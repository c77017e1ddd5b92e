// Whether the cluster could serve a create: it answers, and lets us do what we do.

import { CONFIG_MAPS, PODS } from "./cluster.js";
import { classify, failureOf, healthReason } from "./failure.js";

/** What the provider does. */
const RIGHTS = [
  [PODS, ["get", "list", "create", "delete"]],
  [CONFIG_MAPS, ["get", "list", "create", "patch", "delete"]],
];

export function check(host, config, place) {
  const details = {};
  const health = (ready, reason, message) => ({
    ready,
    reason,
    message,
    details: JSON.stringify(details),
  });
  if (place !== config.cluster) {
    const message = `the config has cluster ${config.cluster}, and no place ${place}`;
    return health(false, "api-error", message);
  }
  const start = host.clock.monotonicMs();
  let server;
  try {
    server = host.kubernetes.about(place);
  } catch (error) {
    const failure = failureOf(error);
    const { message } = classify(`reach cluster ${place}`, failure);
    return health(false, healthReason(failure), message);
  }
  details.serverVersion = server.version;
  details.latencyMs = host.clock.monotonicMs() - start;
  const { namespace } = config;
  const rights = [];
  const grants = [];
  for (const [resource, verbs] of RIGHTS) {
    for (const verb of verbs) {
      try {
        if (!host.kubernetes.allowed(place, { verb, resource, namespace })) {
          rights.push(`${verb} ${resource.plural}`);
        }
      } catch (error) {
        const failure = failureOf(error);
        if (failure.kind !== "denied") {
          const asked = `${verb} ${resource.plural} in namespace ${namespace} of cluster ${place}`;
          return health(false, healthReason(failure), classify(asked, failure).message);
        }
        grants.push(`${verb} ${resource.plural}`);
      }
    }
  }
  const missing = [];
  if (grants.length > 0) {
    details.missingGrants = grants.join(", ");
    missing.push(
      `the grant does not reach: ${details.missingGrants} in namespace ${namespace}; add rules ` +
        `under grants.kubernetes.clusters.${place}.rules`,
    );
  }
  if (rights.length > 0) {
    details.missingRights = rights.join(", ");
    missing.push(
      `${server.user || "the entry's identity"} may not: ${details.missingRights} in namespace ` +
        `${namespace}; allow it by a Role and a RoleBinding`,
    );
  }
  return missing.length > 0
    ? health(false, "rights-missing", missing.join("; "))
    : health(true, "reachable", `Kubernetes ${server.version}`);
}
