// A failure, classified where it is understood: here, from the API's typed answer.
//
// By code and reason, then by causes, and by words only where there is nothing else: the API gives
// a used-up quota no code of its own. What is not understood is transient.

/** What the operator is told. `class` decides what it does; the message names the way out. */
export class ProviderError extends Error {
  constructor(kind, reason, message, retryMs = null) {
    super(message);
    this.class = kind;
    this.reason = reason;
    this.retryMs = retryMs;
  }

  static notFound(message) {
    return new ProviderError("not-found", "not-found", message);
  }

  /** May succeed later: tried again with back-off. */
  static transient(reason, message, retryMs) {
    return new ProviderError("transient", reason, message, retryMs);
  }

  /** Won't succeed until somebody changes something. */
  static permanent(reason, message, retryMs) {
    return new ProviderError("permanent", reason, message, retryMs);
  }

  /** The contract's error record. */
  record() {
    const { class: kind, reason, message, retryMs } = this;
    return { class: kind, reason, message, retryMs, details: "{}", progress: null };
  }
}

/** What a call of the capability threw: its failure, or a mistake that is thrown on. */
export function failureOf(error) {
  if (error?.payload === undefined) {
    throw error;
  }
  return error.payload;
}

/** The error for a failed request; `asked` says which: `create pods a/b in cluster home`. */
export function classify(asked, failure) {
  const { kind, code, message, retryMs } = failure;
  const plain = `${asked}: ${message}`;
  const transient = (reason, text = plain) => ProviderError.transient(reason, text, retryMs);
  const permanent = (reason, wayOut) =>
    ProviderError.permanent(reason, wayOut ? `${plain}; ${wayOut}` : plain, retryMs);
  switch (kind) {
    case "status":
      return classifyStatus(failure, plain, transient, permanent);
    case "denied": // The host says what the grant lacks.
      return permanent("forbidden");
    case "name":
    case "connect":
    case "cut":
      return transient("unreachable");
    case "timeout":
      return transient("timeout");
    case "tls":
      return permanent(
        "certificate-invalid",
        "give the certificate's authority in the cluster's kubeconfig",
      );
    case "credentials":
      return transient(
        "credentials-unavailable",
        `${plain}; give the credentials that the grant names`,
      );
    case "too-large":
      return permanent("too-large", "raise the entry's limit on bodies");
    case "invalid":
      return permanent("backend", "a fault of the provider: report it");
    default:
      return transient("backend", `${plain} (${kind} ${code})`);
  }
}

/** An answer came, and it is not what was asked for. */
export const garbled = (asked) =>
  ProviderError.transient(
    "backend",
    `${asked}: the answer is not what was asked for; does something in between answer instead?`,
  );

function classifyStatus(failure, plain, transient, permanent) {
  const { code, message, retryMs } = failure;
  const { kind, causes = [] } = JSON.parse(failure.details);
  switch (code) {
    case 400:
    case 422:
      return permanent(
        "config",
        "the API server does not take what the config and the Proxy make together",
      );
    case 401:
      return permanent("unauthorized", "renew the credentials where the grant takes them from");
    case 403:
      if (causes.some((cause) => cause.reason === "NamespaceTerminating")) {
        return transient("deleting", `${plain}; wait until the namespace is gone, and make it again`);
      }
      if (message.includes("exceeded quota: ")) {
        const told = `${plain}; raise the quota, or remove what uses it up`;
        return new ProviderError("quota-exceeded", "quota", told, retryMs);
      }
      return permanent(
        "forbidden",
        "allow it by a Role and a RoleBinding, or mend what forbids it",
      );
    case 404:
      return kind === "namespaces"
        ? permanent("namespace-not-found", "create the namespace")
        : transient("backend", `${plain} (status 404): tried again`);
    case 409:
      return transient("busy", `${plain}; somebody else changed it: tried again`);
    case 410:
      return transient("expired", `${plain}; the list began too long ago: it starts anew`);
    case 429:
      return transient("busy");
    default:
      return transient("backend", `${plain} (status ${code}): tried again`);
  }
}

/** What a failure makes of a place. */
export function healthReason({ kind, code }) {
  switch (kind) {
    case "denied":
      return "forbidden";
    case "timeout":
      return "timeout";
    case "name":
    case "connect":
    case "cut":
      return "unreachable";
    case "tls":
      return "certificate-invalid";
    case "credentials":
      return "credentials-unavailable";
    case "status":
      return { 401: "unauthorized", 403: "forbidden" }[code] ?? "api-error";
    default:
      return "api-error";
  }
}

/**
 * Whether the API says that the object is not there. A 404 without that reason comes from
 * elsewhere: a proxy in between, an unknown path.
 */
export const isNotFound = (failure) =>
  failure.kind === "status" &&
  failure.code === 404 &&
  failure.reason === "NotFound" &&
  JSON.parse(failure.details).kind !== "namespaces";

export const isAlreadyExists = (failure) =>
  failure.kind === "status" && failure.code === 409 && failure.reason === "AlreadyExists";

/** Whether it concerns what was asked for alone, and not the whole cluster. */
export const isRefusal = (failure) =>
  failure.kind === "denied" || (failure.kind === "status" && failure.code === 403);
