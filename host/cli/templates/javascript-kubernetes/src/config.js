// Who this provider is, and what an entry may say.

import { ProviderError } from "./failure.js";

/** As it describes itself. */
export const NAME = "{{name}}";

/** The networks that are not routed on the Internet. */
const PRIVATE_NETWORKS = [
  "10.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "100.64.0.0/10",
  "fc00::/7",
];

const schema = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  title: `Config of ${NAME}`,
  type: "object",
  additionalProperties: false,
  required: ["cluster", "namespace", "image"],
  properties: {
    cluster: {
      type: "string",
      minLength: 1,
      description: "The name of a cluster under grants.kubernetes.clusters: the one place.",
    },
    namespace: {
      type: "string",
      pattern: "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
      description: "Where the Pods are made.",
    },
    image: {
      type: "string",
      pattern: "^[^ \\t\\r\\n]+$",
      description: "A container image that holds Squid, best by digest.",
    },
    allowedClients: {
      type: "array",
      items: { type: "string" },
      default: PRIVATE_NETWORKS,
      description: "Networks that may use the proxies. Everyone is refused.",
    },
  },
  examples: [
    { cluster: "home", namespace: "team-a", image: "example.com/squid:6" },
    {
      cluster: "home",
      namespace: "team-a",
      image: "example.com/squid:7",
      allowedClients: ["192.0.2.0/24"],
    },
  ],
};

/** One value for each axis on which providers differ; the contract lists them. */
const profile = {
  readiness: "immediate",
  "ip-source": "assigned-at-create",
  "gc-mark": "native-labels",
  "created-at": "backend-timestamp",
  quota: "detected",
  "not-found": "status-404",
  "primary-key": "name-is-key",
  "provisioning-state": "native",
  "secondary-resources": "explicit",
  "backend-test": "cluster-e2e",
};

export const description = {
  name: NAME,
  version: "0.1.0",
  contract: "{{contract}}",
  profile: JSON.stringify(profile),
  configSchema: JSON.stringify(schema),
};

/** The places of a config, or every fault in it: someone mends it once, and not once a fault. */
export function configure(text) {
  const faults = [];
  const config = readObject(JSON.parse(text), faults);
  if (faults.length > 0) {
    throw faults;
  }
  return [config.cluster];
}

/** A config that `configure` accepted. */
export function readConfig(value) {
  const faults = [];
  const config = readObject(value, faults);
  if (faults.length > 0) {
    const told = faults.map(({ path, message }) => `${path}: ${message}`).join("; ");
    throw ProviderError.permanent("config", `the entry's config is at fault: ${told}`);
  }
  return config;
}

function readObject(value, faults) {
  const fault = (path, message) => {
    faults.push({ path, message });
  };
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    fault("", "must be an object");
    return {};
  }
  for (const key of Object.keys(value)) {
    if (!(key in schema.properties)) {
      const known = Object.keys(schema.properties).join(", ");
      fault(key, `is not known; known here: ${known}`);
    }
  }
  const text = (key, pattern, what) => {
    const found = value[key];
    if (found === undefined || found === null) {
      fault(key, `is missing; give ${what}`);
    } else if (typeof found !== "string" || !pattern.test(found)) {
      fault(key, `must be ${what}, but is ${JSON.stringify(found)}`);
    }
    return found;
  };
  return {
    cluster: text("cluster", /./, "the name of a cluster under grants.kubernetes.clusters"),
    namespace: text(
      "namespace",
      /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/,
      "the namespace where the Pods are made",
    ),
    image: text("image", /^\S+$/, "a container image that holds Squid, best by digest"),
    allowedClients: networks(value.allowedClients ?? PRIVATE_NETWORKS, fault),
  };
}

/** Written into Squid's configuration, so nothing but a network passes. */
function networks(list, fault) {
  if (!Array.isArray(list)) {
    fault("allowedClients", "must be a list of networks");
    return [];
  }
  list.forEach((network, index) => {
    const path = `allowedClients[${index}]`;
    const prefix = prefixOf(network);
    if (prefix === undefined) {
      const found = JSON.stringify(network);
      fault(path, `must be a network like 10.0.0.0/8 or fd00::/8, but is ${found}`);
    } else if (prefix === 0) {
      fault(path, `${network} is everyone, and an open proxy is found within hours`);
    }
  });
  return list;
}

function prefixOf(network) {
  if (typeof network !== "string") {
    return undefined;
  }
  const v4 = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\/(\d{1,2})$/.exec(network);
  if (v4) {
    const [a, b, c, d, prefix] = v4.slice(1).map(Number);
    return [a, b, c, d].every((byte) => byte <= 255) && prefix <= 32 ? prefix : undefined;
  }
  const v6 = /^([0-9a-f:]*:[0-9a-f:]*)\/(\d{1,3})$/i.exec(network);
  return v6 && Number(v6[2]) <= 128 ? Number(v6[2]) : undefined;
}
