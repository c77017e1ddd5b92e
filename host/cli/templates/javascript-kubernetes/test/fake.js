// A Kubernetes API in memory, with the answers of the real one, as far as the provider asks it.
//
// `epo provider test` tries the component against a simulated cluster that knows far more; this one
// is for looking at single calls, within milliseconds.

export const NAME = "proxy-web-inst01-abcdefgh";
export const UID = "0f0e0d0c-1111-2222-3333-444455556666";
export const ID = `home/team-a/${NAME}`;

const INSTALLATION = [
  ["managed", "true"],
  ["installation", "inst01"],
];
const MARK = [...INSTALLATION, ["uid", UID], ["incarnation", "1"]];

/** A failure as the capability throws it. */
export const failure = (fields) =>
  Object.assign(new Error("failed"), {
    payload: {
      kind: "status",
      code: 0,
      reason: "",
      message: "",
      details: "{}",
      retryMs: null,
      sent: true,
      ...fields,
    },
  });

const missing = (plural) =>
  failure({ code: 404, reason: "NotFound", details: JSON.stringify({ kind: plural }) });

export class Fake {
  config = { cluster: "home", namespace: "team-a", image: "squid:1", allowedClients: ["10.0.0.0/8"] };
  calls = [];
  /** Thrown at the first call that begins with `call`: `{ call, error }`. */
  refusal = undefined;
  missingRight = undefined;
  #objects = new Map();
  #made = 0;

  context = {
    mark: () => MARK,
    installationMark: () => INSTALLATION,
    verify: (mark) => (JSON.stringify(mark) === JSON.stringify(MARK) ? "this-target" : "foreign"),
  };

  clock = { nowMs: () => Date.parse("2026-01-01T00:00:00Z"), monotonicMs: () => 0 };

  kubernetes = {
    about: () => {
      this.#call("about");
      return { version: "v1.36.3", home: true, user: "" };
    },
    get: (_, { plural }, __, name) => {
      this.#call(`get ${plural}`);
      return JSON.stringify(this.#object(plural, name));
    },
    list: (_, { plural }, __, { continue: token }) => {
      this.#call(`list ${plural}`);
      const all = [...this.#objects].filter(([key]) => key.startsWith(plural)).map(([, it]) => it);
      // One to a page, so that every list has to go on.
      const from = Number(token ?? 0);
      const metadata = { continue: from + 1 < all.length ? String(from + 1) : "" };
      return JSON.stringify({ metadata, items: all.slice(from, from + 1) });
    },
    allowed: (_, { verb, resource }) => `${verb} ${resource.plural}` !== this.missingRight,
    create: (_, { plural }, __, body) => {
      this.#call(`create ${plural}`);
      const object = JSON.parse(body);
      const key = `${plural}/${object.metadata.name}`;
      if (this.#objects.has(key)) {
        throw failure({ code: 409, reason: "AlreadyExists" });
      }
      this.#made += 1;
      object.metadata.uid = `uid-${this.#made}`;
      object.metadata.resourceVersion = "1";
      object.metadata.creationTimestamp = "2026-01-01T00:00:00Z";
      object.status = { phase: "Pending" };
      this.#objects.set(key, object);
      return JSON.stringify(object);
    },
    patch: (_, { plural }, __, name, ___, body) => {
      this.#call(`patch ${plural}`);
      Object.assign(this.#object(plural, name).data, JSON.parse(body).data);
      return "{}";
    },
    /** Marks it: who wants it gone calls `remove`, as a kubelet would. */
    delete: (_, { plural }, __, name, { uid }) => {
      this.#call(`delete ${plural}`);
      const object = this.#object(plural, name);
      if (object.metadata.uid !== uid) {
        throw failure({ code: 409, reason: "Conflict" });
      }
      object.metadata.deletionTimestamp = "2026-01-01T00:00:10Z";
      return "{}";
    },
  };

  /** `pods/proxy-web-..`, in the order they came. */
  get names() {
    return [...this.#objects.keys()];
  }

  put(plural, object) {
    this.#objects.set(`${plural}/${object.metadata.name}`, object);
  }

  /** What a kubelet, or an administrator, does to an object. */
  edit(plural, edit) {
    edit(this.#object(plural, NAME));
  }

  remove(plural) {
    this.#objects.delete(`${plural}/${NAME}`);
  }

  runPod() {
    this.edit("pods", (pod) => {
      pod.status = {
        phase: "Running",
        conditions: [{ type: "Ready", status: "True" }],
        podIPs: [{ ip: "10.1.2.3" }],
      };
    });
  }

  #object(plural, name) {
    const object = this.#objects.get(`${plural}/${name}`);
    if (object === undefined) {
      throw missing(plural);
    }
    return object;
  }

  #call(what) {
    this.calls.push(what);
    if (this.refusal && what.startsWith(this.refusal.call)) {
      const { error } = this.refusal;
      this.refusal = undefined;
      throw error;
    }
  }
}
