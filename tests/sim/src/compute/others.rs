//! What is beside instances: regions with quotas, images, firewall rules, addresses, and the permission test.

use serde_json::{Value, json};

use super::{
    answers::{Answer, Refusal, link, time},
    api::Asked,
    filter::Filter,
    operations::Begin,
    state::{Effect, MADE_MS, World},
};

impl World {
    pub(super) fn region(&self, project: &str, name: &str) -> Answer {
        let path = format!("projects/{project}/regions/{name}");
        self.permit(project, "compute.regions.get", &path)?;
        let of = self.projects.get(project);
        let Some((of, region)) = of.and_then(|of| Some((of, of.regions.get(name)?))) else {
            return Err(Refusal::not_found(&path));
        };
        let used = of.vms.keys().filter(|(zone, _)| zone.starts_with(name)).count();
        let quotas: Vec<Value> = region
            .limits
            .iter()
            .map(|(metric, limit)| json!({ "metric": metric, "limit": limit, "usage": used }))
            .chain(Some(json!({ "metric": "QUANTUM_CPUS", "limit": 0.0, "usage": 0.0 })))
            .collect();
        let zones = of.zones.iter().filter(|zone| zone.starts_with(name));
        let zones: Vec<String> =
            zones.map(|zone| link(&format!("projects/{project}/zones/{zone}"))).collect();
        let mut answer = json!({
            "kind": "compute#region",
            "id": "1000",
            "name": name,
            "status": if region.is_down { "DOWN" } else { "UP" },
            "zones": zones,
            "selfLink": link(&path),
        });
        let (key, value) = match region.hides_quotas {
            true => {
                ("quotaStatusWarning", json!({ "code": "QUOTA_INFO_UNAVAILABLE", "message": "try again" }))
            }
            false => ("quotas", quotas.into()),
        };
        if let Some(answer) = answer.as_object_mut() {
            answer.insert(key.to_owned(), value);
        }
        Ok(answer)
    }

    /// Whatever is named is there, unless somebody said otherwise.
    pub(super) fn image(&self, project: &str, name: &str) -> Answer {
        let path = format!("projects/{project}/global/images/{name}");
        if self.weather.missing_images.contains(&path) {
            return Err(Refusal::not_found(&path));
        }
        let own = name
            .strip_prefix("family/")
            .map_or_else(|| name.to_owned(), |family| format!("{family}-v20251120"));
        let mut answer = json!({
            "kind": "compute#image",
            "id": "2000",
            "name": own,
            "status": "READY",
            "diskSizeGb": "10",
            "selfLink": link(&format!("projects/{project}/global/images/{own}")),
        });
        if let Some(answer) =
            answer.as_object_mut().filter(|_| self.weather.deprecated_images.contains(&path))
        {
            answer.insert("deprecated".to_owned(), json!({ "state": "DEPRECATED" }));
        }
        Ok(answer)
    }

    pub(super) fn addresses(&self, project: &str, region: &str) -> Answer {
        let Some(of) = self.projects.get(project) else { return Err(Refusal::not_found(project)) };
        let here = of.addresses.iter().filter(|(_, reserved)| reserved.region == region);
        let shown = here.map(|(name, reserved)| {
            let used = of.vms.iter().find(|(_, vm)| vm.address == reserved.address);
            let users: Vec<String> = used
                .map(|((zone, vm), _)| link(&format!("projects/{project}/zones/{zone}/instances/{vm}")))
                .into_iter()
                .collect();
            json!({
                "kind": "compute#address",
                "name": name,
                "address": reserved.address,
                "addressType": "EXTERNAL",
                "status": if users.is_empty() { "RESERVED" } else { "IN_USE" },
                "users": users,
            })
        });
        Ok(json!({ "kind": "compute#addressList", "items": shown.collect::<Vec<_>>() }))
    }

    pub(super) fn rules(&self, project: &str, asked: &Asked<'_>) -> Answer {
        self.permit(project, "compute.firewalls.list", &format!("projects/{project}"))?;
        let filter = asked.query("filter").map(Filter::read).transpose()?;
        let of = self.projects.get(project).into_iter().flat_map(|of| &of.rules);
        let all = of.map(|(_, (_, rule))| rule.clone());
        let all: Vec<Value> =
            all.filter(|rule| filter.as_ref().is_none_or(|filter| filter.takes(rule))).collect();
        let mut answer =
            json!({ "kind": "compute#firewallList", "id": format!("projects/{project}/global/firewalls") });
        if let Some(answer) = answer.as_object_mut().filter(|_| !all.is_empty()) {
            answer.insert("items".to_owned(), all.into());
        }
        Ok(answer)
    }

    pub(super) fn rule(&self, project: &str, name: &str) -> Answer {
        let path = format!("projects/{project}/global/firewalls/{name}");
        self.permit(project, "compute.firewalls.get", &path)?;
        let found = self.projects.get(project).and_then(|of| of.rules.get(name));
        found.map(|(_, rule)| rule.clone()).ok_or_else(|| Refusal::not_found(&path))
    }

    pub(super) fn make_rule(&mut self, project: &str, asked: &Asked<'_>) -> Answer {
        let name = asked.body.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let path = format!("projects/{project}/global/firewalls/{name}");
        self.permit(project, "compute.firewalls.create", &path)?;
        if let Some(begun) = self.repeated(project, asked)? {
            return Ok(begun);
        }
        if self.projects.get(project).is_some_and(|of| of.rules.contains_key(&name)) {
            return Err(Refusal::exists(&path));
        }
        let (number, now) = (self.number(), self.now());
        let mut rule = asked.body.clone();
        if let Some(rule) = rule.as_object_mut() {
            rule.insert("kind".to_owned(), "compute#firewall".into());
            rule.insert("id".to_owned(), number.to_string().into());
            rule.insert("creationTimestamp".to_owned(), time(now).into());
            rule.insert("selfLink".to_owned(), link(&path).into());
        }
        let begin = Begin {
            kind: "insert",
            zone: None,
            target: format!("global/firewalls/{name}"),
            target_number: number,
            lasts_ms: Some(MADE_MS),
            error: None,
            effect: Effect::MakeRule(Box::new(rule)),
        };
        Ok(self.begin(project, Some(asked), begin))
    }

    pub(super) fn delete_rule(&mut self, project: &str, name: &str, asked: &Asked<'_>) -> Answer {
        let path = format!("projects/{project}/global/firewalls/{name}");
        self.permit(project, "compute.firewalls.delete", &path)?;
        if let Some(begun) = self.repeated(project, asked)? {
            return Ok(begun);
        }
        let begin = Begin {
            kind: "delete",
            zone: None,
            target: format!("global/firewalls/{name}"),
            target_number: 0,
            lasts_ms: Some(MADE_MS),
            error: None,
            effect: Effect::DeleteRule,
        };
        match self.projects.get(project).is_some_and(|of| of.rules.contains_key(name)) {
            true => Ok(self.begin(project, Some(asked), begin)),
            false => Err(Refusal::not_found(&path)),
        }
    }

    /// Resource Manager: those of the permissions that there are.
    pub(super) fn manager_answer(&self, asked: &Asked<'_>, path: &[&str]) -> Answer {
        let project = match path {
            ["projects", last] => last.strip_suffix(":testIamPermissions"),
            _ => None,
        };
        let of = project.and_then(|project| self.projects.get(project));
        let Some(of) = of else {
            return Err(Refusal::new(403, "forbidden", "The caller does not have permission"));
        };
        let wanted = asked.body.get("permissions").and_then(Value::as_array).cloned().unwrap_or_default();
        let granted: Vec<Value> = wanted
            .into_iter()
            .filter(|permission| {
                permission.as_str().is_some_and(|permission| !of.forbidden.contains(permission))
            })
            .collect();
        Ok(if granted.is_empty() { json!({}) } else { json!({ "permissions": granted }) })
    }
}
