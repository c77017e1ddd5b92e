// What the operator calls, and where each call goes.
//
// Each call runs in a fresh instance, so nothing is remembered: a call reads what stands at the
// instance's name, decides from that alone, and makes at most one step. Whatever is cut off is
// taken up by the next call, whoever makes it.
//
// This file alone knows that there is a component: the others take what they are lent as `host`,
// so that tests can lend them something else.

import * as clock from "egress:provider/clock@{{contract}}";
import * as context from "egress:provider/context@{{contract}}";
import * as kubernetes from "egress:provider/kubernetes@{{contract}}";

import { check } from "./check.js";
import { configure, description, readConfig } from "./config.js";
import { ProviderError } from "./failure.js";
import { list } from "./list.js";
import { create, get, remove } from "./steps.js";

const host = { clock, context, kubernetes };

/** The config that `configure` accepted: a fresh instance has forgotten it. */
const config = () => readConfig(JSON.parse(context.config()));

/**
 * Runs a call. A `ProviderError` becomes the contract's error record, which is what a component
 * throws. Anything else is a mistake in this code: it ends the call as a trap, and its stack stands
 * in the operator's log.
 */
function answering(call) {
  try {
    return call();
  } catch (error) {
    throw error instanceof ProviderError ? error.record() : error;
  }
}

export const provider = {
  describe: () => description,
  configure,
  create: (target, spec, userData) =>
    answering(() => create(host, config(), target, JSON.parse(spec), userData)),
  get: (target) => answering(() => get(host, config(), target)),
  delete: (target) => answering(() => remove(host, config(), target)),
  list: (place, cursor) => answering(() => list(host, config(), place, cursor)),
  check: (place) => check(host, config(), place),
};
