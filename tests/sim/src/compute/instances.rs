//! Instances: inserted, shown, started, deleted.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    answers::{Answer, Refusal, link, time},
    api::Asked,
    operations::Begin,
    state::{ADDRESS_MS, DELETED_MS, Effect, FAILS_MS, INSERTED_MS, OpError, RUNS_MS, STARTED_MS, Vm, World},
};

const NAME: &str = "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'";
const LABEL: &str = "violates format constraints. The value can only contain lowercase letters, numeric characters, \
                     underscores and dashes. The value can be at most 63 characters long. International characters \
                     are allowed.";
const MOST_METADATA: usize = 262_144;

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn path(project: &str, zone: &str, name: &str) -> String {
    format!("projects/{project}/zones/{zone}/instances/{name}")
}

fn last(link: &str) -> &str {
    link.rsplit('/').next().unwrap_or(link)
}

impl World {
    /// Somebody lacks this permission.
    pub(super) fn permit(&self, project: &str, permission: &str, path: &str) -> Result<(), Refusal> {
        match self.projects.get(project).is_some_and(|of| of.forbidden.contains(permission)) {
            true => Err(Refusal::forbidden(permission, path)),
            false => Ok(()),
        }
    }

    pub(super) fn insert(&mut self, project: &str, zone: &str, asked: &Asked<'_>) -> Answer {
        let body = &asked.body;
        let name = text(body, "/name").to_owned();
        let path = path(project, zone, &name);
        self.permit(project, "compute.instances.create", &path)?;
        if let Some(begun) = self.repeated(project, asked)? {
            return Ok(begun);
        }
        let labels = self.valid(zone, body)?;
        let key = (zone.to_owned(), name.clone());
        let (now, number) = (self.now(), self.number());
        let region = zone.rsplit_once('-').map_or(zone, |(region, _)| region).to_owned();
        let error = self.insert_error(project, zone, &region);
        let Some(of) = self.projects.get_mut(project) else { return Err(Refusal::not_found(project)) };
        if let Some(vm) = of.vms.get(&key) {
            return Err(if vm.deleting { Refusal::not_ready(&path) } else { Refusal::exists(&path) });
        }
        let never = self.weather.never_starts && error.is_none();
        let wanted = text(body, "/networkInterfaces/0/accessConfigs/0/natIP").to_owned();
        let taken = !wanted.is_empty() && of.vms.values().any(|vm| vm.address == wanted);
        let error = error.or_else(|| {
            taken.then(|| OpError {
                code: "IP_IN_USE_BY_ANOTHER_RESOURCE".to_owned(),
                message: format!("IP '{wanted}' is already being used by another resource."),
                status: 400,
                phrase: "BAD REQUEST",
                details: Vec::new(),
            })
        });
        let host = self.made % 250 + 1;
        let nat = body.pointer("/networkInterfaces/0/accessConfigs/0").is_some();
        let address = match (nat, wanted.is_empty()) {
            (false, _) => String::new(),
            (true, false) => wanted,
            (true, true) => format!("203.0.113.{host}"),
        };
        let vm = Vm {
            number,
            body: body.clone(),
            labels,
            label_version: 1,
            inserted_ms: now,
            started_ms: now,
            runs_ms: (!never && error.is_none()).then_some(now + RUNS_MS),
            forced: None,
            address,
            internal: format!("10.128.{}.{host}", self.made / 250 % 16),
            silent: false,
            deleting: false,
        };
        of.vms.insert(key, vm);
        let lasts_ms = match (&error, never) {
            (Some(_), _) => Some(FAILS_MS),
            (None, true) => None,
            (None, false) => Some(INSERTED_MS),
        };
        let target = format!("zones/{zone}/instances/{name}");
        let begin = Begin {
            kind: "insert",
            zone: Some(zone),
            target,
            target_number: number,
            lasts_ms,
            error,
            effect: Effect::Insert,
        };
        Ok(self.begin(project, Some(asked), begin))
    }

    fn insert_error(&mut self, project: &str, zone: &str, region: &str) -> Option<OpError> {
        if let Some(error) = self.weather.insert_fails.pop_front() {
            return Some(error);
        }
        if self.weather.stocked_out.contains(zone) {
            let free: Vec<&str> = self
                .projects
                .get(project)
                .into_iter()
                .flat_map(|of| &of.zones)
                .filter(|other| !self.weather.stocked_out.contains(*other))
                .map(String::as_str)
                .collect();
            return Some(OpError::stockout(project, zone, &free.join(",")));
        }
        let of = self.projects.get(project)?;
        let used =
            |of: &super::state::Project| of.vms.keys().filter(|(zone, _)| zone.starts_with(region)).count();
        let limit = of.regions.get(region)?.limits.get("INSTANCES").copied()?;
        #[expect(clippy::cast_precision_loss, reason = "a handful of instances")]
        let is_full = used(of) as f64 >= limit;
        is_full.then(|| OpError::quota("INSTANCES", limit, region))
    }

    /// What Compute Engine refuses at once.
    fn valid(&self, zone: &str, body: &Value) -> Result<BTreeMap<String, String>, Refusal> {
        let name = text(body, "/name");
        let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || name.len() > 63 || !name.bytes().all(legal)
        {
            return Err(Refusal::invalid("resource.name", name, NAME));
        }
        let machine = text(body, "/machineType");
        let kind = last(machine);
        if !machine.contains(&format!("zones/{zone}/machineTypes/"))
            || !kind.contains('-')
            || kind.ends_with("-unknown")
        {
            let more = format!("Machine type with name '{kind}' does not exist in zone '{zone}'.");
            return Err(Refusal::invalid("resource.machineType", machine, &more));
        }
        let image = text(body, "/disks/0/initializeParams/sourceImage");
        if image.is_empty() || self.weather.missing_images.contains(image) {
            return Err(Refusal::not_found(image));
        }
        let items =
            body.pointer("/metadata/items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if let Some(item) = items.iter().find(|item| text(item, "/value").len() > MOST_METADATA) {
            let field = format!("metadata.items['{}']", text(item, "/key"));
            return Err(Refusal::invalid(&field, "", "The value is too large: 262144 bytes are allowed."));
        }
        let mut labels = BTreeMap::new();
        for (key, value) in body.get("labels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
            if value.len() > 63 || !value.bytes().all(legal) || !key.bytes().all(legal) || key.len() > 63 {
                let more = format!("Label value '{value}' {LABEL}");
                return Err(Refusal::invalid("resource.labels", "", &more));
            }
            labels.insert(key.clone(), value.to_owned());
        }
        Ok(labels)
    }

    /// The instance, once it can be seen.
    fn vm(&mut self, project: &str, zone: &str, name: &str) -> Result<&mut Vm, Refusal> {
        let now = self.now();
        let of = self.projects.get_mut(project);
        let vm = of.and_then(|of| of.vms.get_mut(&(zone.to_owned(), name.to_owned())));
        vm.filter(|vm| vm.is_visible(now)).ok_or_else(|| Refusal::not_found(&path(project, zone, name)))
    }

    pub(super) fn get(&mut self, project: &str, zone: &str, name: &str) -> Answer {
        self.permit(project, "compute.instances.get", &path(project, zone, name))?;
        let now = self.now();
        Ok(shown(project, zone, self.vm(project, zone, name)?, now))
    }

    pub(super) fn start(&mut self, project: &str, zone: &str, name: &str, asked: &Asked<'_>) -> Answer {
        self.permit(project, "compute.instances.start", &path(project, zone, name))?;
        if let Some(begun) = self.repeated(project, asked)? {
            return Ok(begun);
        }
        let now = self.now();
        let (never, dry) = (self.weather.never_starts, self.weather.stocked_out.contains(zone));
        let vm = self.vm(project, zone, name)?;
        if vm.deleting {
            return Err(Refusal::not_ready(&path(project, zone, name)));
        }
        vm.forced = None;
        vm.started_ms = now;
        vm.runs_ms = (!never && !dry).then_some(now + STARTED_MS);
        let target_number = vm.number;
        let begin = Begin {
            kind: "start",
            zone: Some(zone),
            target: format!("zones/{zone}/instances/{name}"),
            target_number,
            lasts_ms: (!never || dry).then_some(STARTED_MS),
            error: dry.then(|| OpError::stockout(project, zone, "")),
            effect: Effect::Start,
        };
        Ok(self.begin(project, Some(asked), begin))
    }

    pub(super) fn delete(&mut self, project: &str, zone: &str, name: &str, asked: &Asked<'_>) -> Answer {
        self.permit(project, "compute.instances.delete", &path(project, zone, name))?;
        if let Some(begun) = self.repeated(project, asked)? {
            return Ok(begun);
        }
        let vm = self.vm(project, zone, name)?;
        if vm.body.get("deletionProtection") == Some(&Value::Bool(true)) {
            let message = format!(
                "Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion. {name}'."
            );
            return Err(Refusal::new(400, "invalidUsage", message));
        }
        // Whoever began it: another delete has to wait.
        if vm.deleting {
            return Err(Refusal::not_ready(&path(project, zone, name)));
        }
        vm.deleting = true;
        let target_number = vm.number;
        let error = self.weather.delete_fails.pop_front();
        let begin = Begin {
            kind: "delete",
            zone: Some(zone),
            target: format!("zones/{zone}/instances/{name}"),
            target_number,
            lasts_ms: Some(if error.is_some() { FAILS_MS } else { DELETED_MS }),
            error,
            effect: Effect::Delete,
        };
        Ok(self.begin(project, Some(asked), begin))
    }

    pub(super) fn set_labels(&mut self, project: &str, zone: &str, name: &str, asked: &Asked<'_>) -> Answer {
        self.permit(project, "compute.instances.setLabels", &path(project, zone, name))?;
        if let Some(begun) = self.repeated(project, asked)? {
            return Ok(begun);
        }
        let vm = self.vm(project, zone, name)?;
        if text(&asked.body, "/labelFingerprint") != fingerprint(vm) {
            return Err(Refusal::changed());
        }
        let labels = asked.body.get("labels").and_then(Value::as_object).into_iter().flatten();
        vm.labels =
            labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect();
        vm.label_version += 1;
        let target_number = vm.number;
        let begin = Begin {
            kind: "setLabels",
            zone: Some(zone),
            target: format!("zones/{zone}/instances/{name}"),
            target_number,
            lasts_ms: Some(500),
            error: None,
            effect: Effect::None,
        };
        Ok(self.begin(project, Some(asked), begin))
    }
}

fn fingerprint(vm: &Vm) -> String {
    format!("{:08x}=", vm.number.wrapping_mul(31).wrapping_add(vm.label_version) & 0xffff_ffff)
}

/// As a get and lists show it.
pub(super) fn shown(project: &str, zone: &str, vm: &Vm, now: u64) -> Value {
    let mut object: Map<String, Value> = vm.body.as_object().cloned().unwrap_or_default();
    let name = text(&vm.body, "/name").to_owned();
    let labels: Map<String, Value> =
        vm.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    let machine = last(text(&vm.body, "/machineType"));
    let more = json!({
        "kind": "compute#instance",
        "id": vm.number.to_string(),
        "creationTimestamp": time(vm.inserted_ms),
        "lastStartTimestamp": time(vm.started_ms),
        "status": vm.status(now),
        "zone": link(&format!("projects/{project}/zones/{zone}")),
        "selfLink": link(&path(project, zone, &name)),
        "machineType": link(&format!("projects/{project}/zones/{zone}/machineTypes/{machine}")),
        "labels": labels,
        "labelFingerprint": fingerprint(vm),
        "fingerprint": format!("{:011x}=", now),
        "cpuPlatform": "Unknown CPU Platform",
        "somethingNew": { "of": "a later revision" },
    });
    object.extend(more.as_object().cloned().unwrap_or_default());
    if let Some(disks) = object.get_mut("disks").and_then(Value::as_array_mut) {
        for disk in disks {
            // Given, and never shown.
            if let Some(disk) = disk.as_object_mut() {
                disk.remove("initializeParams");
                disk.insert(
                    "source".to_owned(),
                    link(&format!("projects/{project}/zones/{zone}/disks/{name}")).into(),
                );
            }
        }
    }
    if let Some(nic) =
        object.get_mut("networkInterfaces").and_then(|nics| nics.get_mut(0)).and_then(Value::as_object_mut)
    {
        nic.insert("name".to_owned(), "nic0".into());
        if !vm.silent {
            nic.insert("networkIP".to_owned(), vm.internal.clone().into());
        }
        // It comes late.
        let has_address =
            vm.runs_ms.is_some_and(|at| now >= at.saturating_sub(RUNS_MS) + ADDRESS_MS) && !vm.silent;
        let access =
            nic.get_mut("accessConfigs").and_then(|all| all.get_mut(0)).and_then(Value::as_object_mut);
        if let Some(access) = access {
            access.remove("natIP");
            if has_address {
                access.insert("natIP".to_owned(), vm.address.clone().into());
            }
        }
        let access =
            nic.get_mut("ipv6AccessConfigs").and_then(|all| all.get_mut(0)).and_then(Value::as_object_mut);
        if let Some(access) = access.filter(|_| has_address) {
            access.insert("externalIpv6".to_owned(), "2001:db8::7".into());
        }
    }
    Value::Object(object)
}
