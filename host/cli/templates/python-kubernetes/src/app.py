"""What the operator calls, and where each call goes.

Each call runs in a fresh instance, so nothing is remembered: a call reads what stands at the
instance's name, decides from that alone, and makes at most one step. Whatever is cut off is taken
up by the next call, whoever makes it.

This file alone uses the component's imports: the package `pods` takes what it is lent as `host`, so
that tests can lend it something else.
"""

import json

from pods import check, config, listing, steps
from pods.config import Config
from wit_world import exports
from wit_world.imports import clock, context, kubernetes, types


class Host:
    """What a component is lent."""

    clock = clock
    context = context
    kubernetes = kubernetes


def accepted() -> Config:
    """The config that `configure` accepted: a fresh instance has forgotten it."""
    return config.accepted(json.loads(context.config()))


class Provider(exports.Provider):
    """An `Err` that is raised is the contract's error; any other exception ends the call as a trap,
    and its traceback stands in the operator's log."""

    def describe(self) -> types.Description:
        return config.DESCRIPTION

    def configure(self, config_text: str) -> list[str]:
        return config.configure(json.loads(config_text))

    def create(self, target: types.Target, spec: str, user_data: bytes) -> types.Created:
        return steps.create(Host, accepted(), target, json.loads(spec), user_data)

    def get(self, target: types.Target) -> types.Instance:
        return steps.get(Host, accepted(), target)

    def delete(self, target: types.Target) -> types.Deleted:
        return steps.delete(Host, accepted(), target)

    def list(self, place: str, cursor: str | None) -> types.Page:
        return listing.page(Host, accepted(), place, cursor)

    def check(self, place: str) -> types.Health:
        return check.health(Host, accepted(), place)
