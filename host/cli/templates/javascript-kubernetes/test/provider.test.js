// Single calls, in Node. The whole contract is `epo provider test`'s: `make test` runs both.

import assert from "node:assert/strict";
import { test } from "node:test";

import { check } from "../src/check.js";
import { configure, description } from "../src/config.js";
import { list } from "../src/list.js";
import { create, get, remove } from "../src/steps.js";
import { Fake, ID, NAME, UID, failure } from "./fake.js";

const target = {
  name: NAME,
  uid: UID,
  incarnation: 1,
  namespace: "team-a",
  proxy: "web",
  id: null,
  progress: null,
};
const known = { ...target, id: ID };
const spec = { port: 3128, placement: {} };
const nothing = new Uint8Array();

const createKnown = (fake) => create(fake, fake.config, known, spec, nothing);
const getKnown = (fake) => get(fake, fake.config, known);
const removeKnown = (fake) => remove(fake, fake.config, known);

function running() {
  const fake = new Fake();
  createKnown(fake);
  fake.runPod();
  assert.deepEqual(createKnown(fake), { tag: "done", val: ID });
  fake.calls = [];
  return fake;
}

/** All pages. */
function listAll(fake) {
  const all = { items: [], unread: [] };
  let cursor = null;
  do {
    const page = list(fake, fake.config, "home", cursor);
    all.items.push(...page.items);
    all.unread.push(...page.unread);
    cursor = page.next;
  } while (cursor !== null);
  return all;
}

test("the example of the schema is a config", () => {
  const [example] = JSON.parse(description.configSchema).examples;
  assert.deepEqual(configure(JSON.stringify(example)), ["home"]);
});

test("every fault of a config is told with its path", () => {
  const config = {
    cluster: 7,
    namespace: "Team A",
    allowedClients: ["0.0.0.0/0", "x", "10.0.0.0/33", "fd00::/8"],
    imgae: "",
  };
  assert.throws(
    () => configure(JSON.stringify(config)),
    (faults) => {
      const paths = faults.map(({ path }) => path).sort();
      const lists = [0, 1, 2].map((index) => `allowedClients[${index}]`);
      assert.deepEqual(paths, [...lists, "cluster", "image", "imgae", "namespace"]);
      return true;
    },
  );
});

test("what can not be honoured is refused before any call", () => {
  const fake = new Fake();
  const placed = { port: 3128, placement: { region: null, zone: "a" } };
  assert.throws(() => create(fake, fake.config, known, placed, nothing), {
    class: "permanent",
    reason: "placement",
    message: /spec\.placement\.zone/,
  });
  const userData = new TextEncoder().encode("#cloud-config");
  assert.throws(() => create(fake, fake.config, known, spec, userData), {
    class: "permanent",
    reason: "unsupported",
  });
  assert.deepEqual(fake.calls, []);
});

test("the id is told before anything is made", () => {
  const fake = new Fake();
  const step = create(fake, fake.config, target, spec, nothing);
  assert.deepEqual([step.tag, step.val.id], ["pending", ID]);
  assert.deepEqual(fake.names, []);
});

test("a Proxy becomes a Pod that runs and a ConfigMap", () => {
  const fake = running();
  assert.deepEqual(fake.names, [`configmaps/${NAME}`, `pods/${NAME}`]);
  const { state, addresses } = getKnown(fake);
  assert.deepEqual([state, addresses], ["running", [{ kind: "internal", ip: "10.1.2.3" }]]);
});

test("a create cut after the ConfigMap is taken up, even under another config", () => {
  const fake = new Fake();
  fake.refusal = { call: "create pods", error: failure({ kind: "cut" }) };
  assert.throws(() => createKnown(fake), { class: "transient", reason: "unreachable" });
  fake.config.allowedClients = ["192.0.2.0/24"];
  createKnown(fake);
  assert.ok(fake.calls.includes("patch configmaps"));
  assert.equal(fake.names.length, 2);
});

test("what is not ours is never touched", () => {
  for (const plural of ["pods", "configmaps"]) {
    const fake = running();
    fake.edit(plural, ({ metadata }) => {
      metadata.labels["egressproxies.dev/uid"] = "another";
    });
    assert.throws(() => removeKnown(fake), { class: "permanent", reason: "foreign" });
    assert.ok(!fake.calls.some((call) => call.startsWith("delete")));
  }
  const fake = new Fake();
  fake.put("pods", { metadata: { name: NAME } });
  assert.throws(() => createKnown(fake), { class: "permanent", reason: "foreign" });
  assert.throws(() => getKnown(fake), { class: "permanent", reason: "foreign" });
});

test("a delete is done only when nothing is left", () => {
  const fake = running();
  assert.equal(removeKnown(fake).tag, "pending");
  fake.remove("configmaps");
  assert.equal(removeKnown(fake).tag, "pending");
  fake.remove("pods");
  assert.equal(removeKnown(fake).tag, "done");
});

test("a Pod that ended is to be replaced, and one being deleted is waited for", () => {
  const ended = running();
  ended.edit("pods", (pod) => {
    pod.status.phase = "Failed";
  });
  assert.throws(() => createKnown(ended), { class: "permanent", reason: "finished" });
  const leaving = running();
  removeKnown(leaving);
  assert.throws(() => createKnown(leaving), { class: "transient", reason: "deleting" });
});

test("a ConfigMap without its Pod is a leftover", () => {
  const fake = running();
  assert.deepEqual(
    listAll(fake).items.map(({ id, leftover }) => [id, leftover]),
    [[ID, null]],
  );
  fake.remove("pods");
  assert.deepEqual(
    listAll(fake).items.map(({ id, leftover }) => [id, leftover]),
    [[ID, "configmap"]],
  );
});

test("what can not be read is named, and never taken for empty", () => {
  const fake = running();
  fake.refusal = { call: "list pods", error: failure({ code: 403, reason: "Forbidden" }) };
  assert.match(listAll(fake).unread[0], /list pods/);
  fake.refusal = { call: "list pods", error: failure({ kind: "connect" }) };
  assert.throws(() => listAll(fake), { class: "transient", reason: "unreachable" });
});

test("failures are told apart", () => {
  for (const [fields, kind, reason] of [
    [{ code: 403, message: "exceeded quota: pods" }, "quota-exceeded", "quota"],
    [{ code: 403, message: "user cannot create resource" }, "permanent", "forbidden"],
    [{ code: 401 }, "permanent", "unauthorized"],
    [{ code: 429 }, "transient", "busy"],
    [{ code: 503 }, "transient", "backend"],
    [{ kind: "timeout" }, "transient", "timeout"],
    [{ kind: "new" }, "transient", "backend"],
  ]) {
    const fake = new Fake();
    fake.refusal = { call: "create pods", error: failure(fields) };
    assert.throws(() => createKnown(fake), { class: kind, reason });
  }
});

test("a check names the rights that are missing", () => {
  const fake = new Fake();
  assert.ok(check(fake, fake.config, "home").ready);
  fake.missingRight = "delete pods";
  const { ready, reason, message } = check(fake, fake.config, "home");
  assert.deepEqual([ready, reason], [false, "rights-missing"]);
  assert.match(message, /delete pods/);
});
