// What an instance is made of.
//
// The Pod keeps the restricted Pod Security level: no root, no capabilities, a read-only file
// system, no token.

import { labels } from "./cluster.js";

const SQUID_CONF = "squid.conf";
const CONFIG_DIR = "/etc/egress-proxy";
/** The user `proxy` of Debian's and Ubuntu's Squid. */
const SQUID_USER = 13;

/** The mark goes into the very call that makes the object. */
const metadata = ({ namespace, name }, mark) => ({ name, namespace, labels: labels(mark) });

/** The ConfigMap; `mark` and `port` are the Proxy's. */
export const configMap = (at, config, mark, port) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: metadata(at, mark),
  data: { [SQUID_CONF]: squidConf(at, config, port) },
});

/** The Pod. */
export function pod(at, config, mark, port) {
  const tcpSocket = { port };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: metadata(at, mark),
    spec: {
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 8,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: SQUID_USER,
        runAsGroup: SQUID_USER,
        seccompProfile: { type: "RuntimeDefault" },
        // Without it nobody but root may listen below 1024.
        sysctls: [{ name: "net.ipv4.ip_unprivileged_port_start", value: "0" }],
      },
      containers: [
        {
          name: "squid",
          image: config.image,
          command: ["/usr/sbin/squid", "-N", "-d1", "-f", `${CONFIG_DIR}/${SQUID_CONF}`],
          ports: [{ name: "proxy", containerPort: port }],
          resources: {
            requests: { cpu: "10m", memory: "32Mi" },
            limits: { memory: "256Mi" },
          },
          startupProbe: { tcpSocket, periodSeconds: 1, failureThreshold: 60 },
          readinessProbe: { tcpSocket, periodSeconds: 5 },
          terminationMessagePolicy: "FallbackToLogsOnError",
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          },
          volumeMounts: [
            { name: "config", mountPath: CONFIG_DIR, readOnly: true },
            { name: "tmp", mountPath: "/tmp" },
          ],
        },
      ],
      volumes: [
        { name: "config", configMap: { name: at.name } },
        { name: "tmp", emptyDir: { sizeLimit: "64Mi" } },
      ],
    },
  };
}

/**
 * Keeps nothing: no cache, no log, no pid file. Reaches neither its own Pod nor link-local
 * addresses, where clouds hand out a node's credentials.
 */
function squidConf(at, config, port) {
  const clients = config.allowedClients.join(" ");
  return [
    `http_port ${port}`,
    `visible_hostname ${at.name}`,
    ...(clients ? [`acl clients src ${clients}`] : []),
    "acl tunnel method CONNECT",
    "acl tunnel_ports port 443",
    "acl inside dst 0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 ::1/128 fe80::/10",
    "http_access deny manager",
    "http_access deny tunnel !tunnel_ports",
    "http_access deny inside",
    ...(clients ? ["http_access allow clients"] : []),
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
    "",
  ].join("\n");
}
