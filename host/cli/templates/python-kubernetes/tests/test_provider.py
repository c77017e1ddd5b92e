"""Single calls, in this machine's Python. The whole contract is `epo provider test`'s: `make test`
runs both."""

import json
import unittest
from dataclasses import replace

from componentize_py_types import Err
from fake import ID, NAME, UID, Fake, failure
from pods import check, config, listing, steps
from wit_world.imports.types import (
    Created_Done,
    Created_Pending,
    Deleted_Done,
    Deleted_Pending,
    ErrorClass,
    State,
    Target,
)

TARGET = Target(NAME, UID, 1, "team-a", "web", id=None, progress=None)
KNOWN = replace(TARGET, id=ID)
SPEC = {"port": 3128, "placement": {}}
PERMANENT, TRANSIENT = ErrorClass.PERMANENT, ErrorClass.TRANSIENT


def create(fake, target=KNOWN, spec=SPEC, user_data=b""):
    return steps.create(fake, fake.config, target, spec, user_data)


def get(fake):
    return steps.get(fake, fake.config, KNOWN)


def delete(fake):
    return steps.delete(fake, fake.config, KNOWN)


def listed(fake):
    """All pages."""
    items, unread, cursor = [], [], None
    while True:
        page = listing.page(fake, fake.config, "home", cursor)
        items += page.items
        unread += page.unread
        cursor = page.next
        if cursor is None:
            return items, unread


class ProviderTest(unittest.TestCase):
    def refused(self, kind, reason, call, *args, **more):
        with self.assertRaises(Err) as caught:
            call(*args, **more)
        error = caught.exception.value
        self.assertEqual((error.class_, error.reason), (kind, reason))
        return error.message

    def running(self):
        fake = Fake()
        create(fake)
        fake.run_pod()
        self.assertEqual(create(fake), Created_Done(ID))
        fake.calls.clear()
        return fake

    def test_the_example_of_the_schema_is_a_config(self):
        schema = json.loads(config.DESCRIPTION.config_schema)
        self.assertEqual(config.configure(schema["examples"][0]), ["home"])

    def test_every_fault_of_a_config_is_told_with_its_path(self):
        networks = ["0.0.0.0/0", "x", "10.0.0.0/33", "fd00::/8"]
        wrong = {"cluster": 7, "namespace": "Team A", "allowedClients": networks, "imgae": ""}
        with self.assertRaises(Err) as caught:
            config.configure(wrong)
        paths = sorted(fault.path for fault in caught.exception.value)
        expected = [f"allowedClients[{index}]" for index in range(3)]
        self.assertEqual(paths, [*expected, "cluster", "image", "imgae", "namespace"])

    def test_what_can_not_be_honoured_is_refused_before_any_call(self):
        fake = Fake()
        placed = {"port": 3128, "placement": {"region": None, "zone": "a"}}
        told = self.refused(PERMANENT, "placement", create, fake, spec=placed)
        self.assertIn("spec.placement.zone", told)
        self.refused(PERMANENT, "unsupported", create, fake, user_data=b"#cloud-config")
        self.assertEqual(fake.calls, [])

    def test_the_id_is_told_before_anything_is_made(self):
        fake = Fake()
        step = create(fake, TARGET)
        self.assertIsInstance(step, Created_Pending)
        self.assertEqual((step.value.id, fake.objects), (ID, {}))

    def test_a_proxy_becomes_a_pod_that_runs_and_a_config_map(self):
        fake = self.running()
        self.assertEqual(list(fake.objects), [("configmaps", NAME), ("pods", NAME)])
        instance = get(fake)
        self.assertEqual((instance.state, instance.addresses[0].ip), (State.RUNNING, "10.1.2.3"))

    def test_a_create_cut_after_the_config_map_is_taken_up_even_under_another_config(self):
        fake = Fake()
        fake.refusal = ("create pods", failure("cut"))
        self.refused(TRANSIENT, "unreachable", create, fake)
        fake.config.allowed_clients = ["192.0.2.0/24"]
        create(fake)
        self.assertIn("patch configmaps", fake.calls)
        self.assertEqual(len(fake.objects), 2)

    def test_what_is_not_ours_is_never_touched(self):
        for plural in ("pods", "configmaps"):
            fake = self.running()
            fake.objects[plural, NAME]["metadata"]["labels"]["egressproxies.dev/uid"] = "another"
            self.refused(PERMANENT, "foreign", delete, fake)
            self.assertFalse([call for call in fake.calls if call.startswith("delete")])
        fake = Fake()
        fake.objects["pods", NAME] = {"metadata": {"name": NAME}}
        self.refused(PERMANENT, "foreign", create, fake)
        self.refused(PERMANENT, "foreign", get, fake)

    def test_a_delete_is_done_only_when_nothing_is_left(self):
        fake = self.running()
        self.assertIsInstance(delete(fake), Deleted_Pending)
        fake.remove("configmaps")
        self.assertIsInstance(delete(fake), Deleted_Pending)
        fake.remove("pods")
        self.assertEqual(delete(fake), Deleted_Done())

    def test_a_pod_that_ended_is_to_be_replaced_and_one_being_deleted_is_waited_for(self):
        fake = self.running()
        fake.objects["pods", NAME]["status"]["phase"] = "Failed"
        self.refused(PERMANENT, "finished", create, fake)
        fake = self.running()
        delete(fake)
        self.refused(TRANSIENT, "deleting", create, fake)

    def test_a_config_map_without_its_pod_is_a_leftover(self):
        fake = self.running()
        items, _ = listed(fake)
        self.assertEqual([(it.id, it.leftover) for it in items], [(ID, None)])
        fake.remove("pods")
        items, _ = listed(fake)
        self.assertEqual([(it.id, it.leftover) for it in items], [(ID, "configmap")])

    def test_what_can_not_be_read_is_named_and_never_taken_for_empty(self):
        fake = self.running()
        fake.refusal = ("list pods", failure(code=403, reason="Forbidden"))
        _, unread = listed(fake)
        self.assertIn("list pods", unread[0])
        fake.refusal = ("list pods", failure("connect"))
        self.refused(TRANSIENT, "unreachable", listed, fake)

    def test_failures_are_told_apart(self):
        quota = ErrorClass.QUOTA_EXCEEDED
        for refusal, kind, reason in [
            (failure(code=403, message="exceeded quota: pods"), quota, "quota"),
            (failure(code=403, message="user cannot create resource"), PERMANENT, "forbidden"),
            (failure(code=401), PERMANENT, "unauthorized"),
            (failure(code=429), TRANSIENT, "busy"),
            (failure(code=503), TRANSIENT, "backend"),
            (failure("timeout"), TRANSIENT, "timeout"),
            (failure("new"), TRANSIENT, "backend"),
        ]:
            fake = Fake()
            fake.refusal = ("create pods", refusal)
            self.refused(kind, reason, create, fake)

    def test_a_check_names_the_rights_that_are_missing(self):
        fake = Fake()
        self.assertTrue(check.health(fake, fake.config, "home").ready)
        fake.missing_right = "delete pods"
        health = check.health(fake, fake.config, "home")
        self.assertEqual((health.ready, health.reason), (False, "rights-missing"))
        self.assertIn("delete pods", health.message)


if __name__ == "__main__":
    unittest.main()
