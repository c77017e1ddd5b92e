//! Operations: state machines in virtual time. A write is accepted at once, and what became of it is known later.

use serde_json::{Value, json};

use super::{
    answers::{Answer, Refusal, link, time},
    api::Asked,
    filter::Filter,
    state::{Effect, Op, OpError, Project, RUNS_MS, World},
};

const ZERO: &str = "00000000-0000-0000-0000-000000000000";

/// What an operation is to be.
pub(super) struct Begin<'a> {
    pub kind: &'a str,
    pub zone: Option<&'a str>,
    pub target: String,
    pub target_number: u64,
    /// From now; none for what is held up.
    pub lasts_ms: Option<u64>,
    pub error: Option<OpError>,
    pub effect: Effect,
}

impl World {
    /// The operation that this request id began before, if it did.
    pub(super) fn repeated(&self, project: &str, asked: &Asked<'_>) -> Result<Option<Value>, Refusal> {
        let Some(id) = asked.query("requestId") else { return Ok(None) };
        let is_uuid = id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if id == ZERO || !is_uuid {
            return Err(Refusal::invalid("requestId", id, "Must be a valid UUID that is not zero."));
        }
        let Some(of) = self.projects.get(project) else { return Ok(None) };
        let begun = of.requests.get(id).and_then(|name| of.ops.iter().find(|op| op.name == *name));
        Ok(begun.map(|op| self.shown(project, op)))
    }

    pub(super) fn begin(&mut self, project: &str, asked: Option<&Asked<'_>>, begin: Begin<'_>) -> Value {
        let (now, number) = (self.now(), self.number());
        let op = Op {
            name: format!(
                "operation-{now}-{:013x}-{:08x}-{:08x}",
                number & 0xffff_ffff,
                self.made,
                now & 0xffff_ffff
            ),
            number,
            kind: begin.kind.to_owned(),
            zone: begin.zone.map(str::to_owned),
            target: begin.target,
            target_number: begin.target_number,
            inserted_ms: now,
            due_ms: begin.lasts_ms.map(|lasts| now + lasts),
            done_ms: None,
            error: begin.error,
            effect: begin.effect,
        };
        let shown = self.shown(project, &op);
        if let Some(of) = self.projects.get_mut(project) {
            if let Some(id) = asked.and_then(|asked| asked.query("requestId")) {
                of.requests.insert(id.to_owned(), op.name.clone());
            }
            of.ops.push(op);
        }
        shown
    }

    /// Ends what is due.
    pub(super) fn settle(&mut self) {
        let now = self.now();
        for project in self.projects.values_mut() {
            let Project { ops, vms, rules, .. } = project;
            for op in ops.iter_mut().filter(|op| op.done_ms.is_none()) {
                let Some(due) = op.due_ms.filter(|due| *due <= now) else { continue };
                op.done_ms = Some(due);
                let key = key(&op.target);
                match (&op.effect, &op.error) {
                    (Effect::Insert, Some(_)) => {
                        vms.remove(&key);
                    }
                    // Only the one that was meant.
                    (Effect::Delete, None)
                        if vms.get(&key).is_some_and(|vm| vm.number == op.target_number) =>
                    {
                        vms.remove(&key);
                    }
                    (Effect::Delete, Some(_)) => {
                        if let Some(vm) = vms.get_mut(&key) {
                            vm.deleting = false;
                        }
                    }
                    (Effect::Start, Some(_)) => {
                        if let Some(vm) = vms.get_mut(&key) {
                            vm.forced = Some("TERMINATED".to_owned());
                        }
                    }
                    (Effect::MakeRule(rule), None) => {
                        rules.insert(key.1, (due, (**rule).clone()));
                    }
                    (Effect::DeleteRule, None) => {
                        rules.remove(&key.1);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Lets go on what was held up.
    pub(super) fn release(&mut self, held: impl Fn(&Op) -> bool) {
        let now = self.now();
        for project in self.projects.values_mut() {
            let Project { ops, vms, .. } = project;
            for op in ops.iter_mut().filter(|op| op.done_ms.is_none() && op.due_ms.is_none() && held(op)) {
                op.due_ms = Some(now + RUNS_MS);
                if let Some(vm) = vms.get_mut(&key(&op.target)).filter(|vm| vm.runs_ms.is_none()) {
                    vm.runs_ms = Some(now + RUNS_MS);
                }
            }
        }
    }

    fn shown(&self, project: &str, op: &Op) -> Value {
        let scope = match &op.zone {
            Some(zone) => format!("zones/{zone}"),
            None => "global".to_owned(),
        };
        let mut shown = json!({
            "kind": "compute#operation",
            "id": op.number.to_string(),
            "name": op.name,
            "operationType": op.kind,
            "targetLink": link(&format!("projects/{project}/{}", op.target)),
            "targetId": op.target_number.to_string(),
            "status": if op.done_ms.is_some() { "DONE" } else { "RUNNING" },
            "user": "operator@project.iam.gserviceaccount.com",
            "progress": if op.done_ms.is_some() { 100 } else { 0 },
            "insertTime": time(op.inserted_ms),
            "startTime": time(op.inserted_ms),
            "selfLink": link(&format!("projects/{project}/{scope}/operations/{}", op.name)),
        });
        let Some(object) = shown.as_object_mut() else { return shown };
        if let Some(zone) = &op.zone {
            object.insert("zone".to_owned(), link(&format!("projects/{project}/zones/{zone}")).into());
        }
        if let Some(done) = op.done_ms {
            object.insert("endTime".to_owned(), time(done).into());
            if let Some(error) = &op.error {
                let mut one = json!({ "code": error.code, "message": error.message });
                if let Some(one) = one.as_object_mut().filter(|_| !error.details.is_empty()) {
                    one.insert("errorDetails".to_owned(), error.details.clone().into());
                }
                object.insert("error".to_owned(), json!({ "errors": [one] }));
                object.insert("httpErrorStatusCode".to_owned(), error.status.into());
                object.insert("httpErrorMessage".to_owned(), error.phrase.into());
            }
        }
        shown
    }

    pub(super) fn operation(&self, project: &str, zone: Option<&str>, name: &str) -> Answer {
        let of = self.projects.get(project);
        let found = of.and_then(|of| of.ops.iter().find(|op| op.name == name && op.zone.as_deref() == zone));
        let scope = zone.map_or_else(|| "global".to_owned(), |zone| format!("zones/{zone}"));
        found
            .map(|op| self.shown(project, op))
            .ok_or_else(|| Refusal::not_found(&format!("projects/{project}/{scope}/operations/{name}")))
    }

    pub(super) fn operations(&self, project: &str, zone: &str, asked: &Asked<'_>) -> Answer {
        let filter = asked.query("filter").map(Filter::read).transpose()?;
        let of = self.projects.get(project).into_iter().flat_map(|of| &of.ops);
        let shown = of.filter(|op| op.zone.as_deref() == Some(zone)).map(|op| self.shown(project, op));
        let all: Vec<Value> =
            shown.filter(|op| filter.as_ref().is_none_or(|filter| filter.takes(op))).collect();
        let id = format!("projects/{project}/zones/{zone}/operations");
        let mut answer = json!({ "kind": "compute#operationList", "id": id, "selfLink": link(&id) });
        if let Some(answer) = answer.as_object_mut().filter(|_| !all.is_empty()) {
            answer.insert("items".to_owned(), all.into());
        }
        Ok(answer)
    }
}

/// Zone and name of `zones/Z/instances/N`; of what stands in no zone the name alone.
pub(super) fn key(target: &str) -> (String, String) {
    match target.split('/').collect::<Vec<_>>().as_slice() {
        ["zones", zone, _, name] => ((*zone).to_owned(), (*name).to_owned()),
        other => (String::new(), other.last().copied().unwrap_or_default().to_owned()),
    }
}
