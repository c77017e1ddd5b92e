//! Lists over all zones: pages that may split a zone, empty zones with a warning, zones that are left out.

use serde_json::{Map, Value, json};

use super::{
    answers::{Answer, Refusal, link},
    api::Asked,
    filter::Filter,
    instances::shown,
    state::World,
};

impl World {
    pub(super) fn aggregated(&mut self, project: &str, asked: &Asked<'_>) -> Answer {
        self.permit(project, "compute.instances.list", &format!("projects/{project}"))?;
        let filter = asked.query("filter").map(Filter::read).transpose()?;
        let partial = asked.query("returnPartialSuccess") == Some("true");
        let unreachable = self.weather.unreachable.clone();
        if !partial && !unreachable.is_empty() {
            // Without it a zone that is down costs the whole list.
            return Err(Refusal::new(
                503,
                "backendError",
                "Internal error. Please try again or contact Google Support.",
            ));
        }
        let after = match asked.query("pageToken") {
            None => None,
            Some(token) if self.weather.tokens_expire => {
                return Err(Refusal::invalid(
                    "pageToken",
                    token,
                    "The page token is invalid or has expired.",
                ));
            }
            Some(token) => Some(read_token(token)?),
        };
        let most = asked.query("maxResults").and_then(|most| most.parse::<usize>().ok()).unwrap_or(500);
        let most = most.clamp(1, self.page);
        let now = self.now();
        let Some(of) = self.projects.get(project) else { return Err(Refusal::not_found(project)) };
        let mut found = Vec::new();
        for ((zone, name), vm) in of.vms.iter().filter(|(_, vm)| vm.is_visible(now)) {
            let is_behind = after.as_ref().is_none_or(|after| (zone, name) > (&after.0, &after.1));
            if is_behind && !unreachable.contains(zone) {
                let object = shown(project, zone, vm, now);
                if filter.as_ref().is_none_or(|filter| filter.takes(&object)) {
                    found.push((zone.clone(), name.clone(), object));
                }
            }
        }
        let more = found.len() > most;
        found.truncate(most);
        let next = found.last().filter(|_| more).map(|(zone, name, _)| token(zone, name));
        let mut items: Map<String, Value> = Map::new();
        let scopes = of.regions.keys().map(|region| format!("regions/{region}"));
        for scope in scopes.chain(of.zones.iter().map(|zone| format!("zones/{zone}"))) {
            let zone = scope.trim_start_matches("zones/");
            let here: Vec<Value> =
                found.iter().filter(|(at, _, _)| at == zone).map(|(_, _, object)| object.clone()).collect();
            let of_scope = if unreachable.contains(zone) {
                json!({ "warning": warning("UNREACHABLE", &format!("The resource '{scope}' is unreachable."), &scope) })
            } else if here.is_empty() {
                let message = format!("There are no results for scope '{scope}' on this page.");
                json!({ "warning": warning("NO_RESULTS_ON_PAGE", &message, &scope) })
            } else {
                json!({ "instances": here })
            };
            items.insert(scope, of_scope);
        }
        let id = format!("projects/{project}/aggregated/instances");
        let mut answer = json!({ "kind": "compute#instanceAggregatedList", "id": id, "items": items, "selfLink": link(&id) });
        let Some(object) = answer.as_object_mut() else { return Ok(answer) };
        object.extend(next.map(|next| ("nextPageToken".to_owned(), next.into())));
        if !unreachable.is_empty() {
            let scopes = unreachable.iter().map(|zone| format!("projects/{project}/zones/{zone}"));
            object.insert("unreachables".to_owned(), scopes.collect::<Vec<_>>().into());
        }
        if let Some(code) = &self.weather.list_warning {
            object.insert("warning".to_owned(), warning(code, "The list is not complete.", ""));
        }
        Ok(answer)
    }
}

fn warning(code: &str, message: &str, scope: &str) -> Value {
    json!({ "code": code, "message": message, "data": [{ "key": "scope", "value": scope }] })
}

/// Where a page ended, in letters that need no encoding.
fn token(zone: &str, name: &str) -> String {
    format!("{zone}.{name}")
}

fn read_token(token: &str) -> Result<(String, String), Refusal> {
    let read = token.split_once('.').map(|(zone, name)| (zone.to_owned(), name.to_owned()));
    read.ok_or_else(|| Refusal::invalid("pageToken", token, "The page token is invalid or has expired."))
}
