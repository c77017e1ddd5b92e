//! The few requests that are made, below the project at the endpoint that the grant names.

use provider_sdk::{
    Context, Error, Http,
    http::{Body, Method, Request},
};
use serde_json::Value;

use crate::{
    config::Config,
    failure::{Asked, Refused, Trouble},
    id::Location,
    instance::text,
    operation::Operation,
};

/// What an operation is called that takes a Spot machine away.
const PREEMPTED: &str = "compute.instances.preempted";

/// See the module.
pub struct Api<'h, H> {
    host: &'h H,
    config: &'h Config,
}

impl<'h, H: Context + Http> Api<'h, H> {
    pub fn new(host: &'h H, config: &'h Config) -> Self {
        Self { host, config }
    }

    /// The entry's config.
    pub fn config(&self) -> &'h Config {
        self.config
    }

    /// What is lent beside it.
    pub fn host(&self) -> &'h H {
        self.host
    }

    /// A request, for messages.
    pub fn asked(&self, what: impl Into<String>) -> Asked<'h> {
        Asked { project: &self.config.project, what: what.into() }
    }

    /// Reads something below the project.
    pub fn read(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Value, Trouble> {
        self.send(Method::Get, path, query, Body::None)
    }

    /// Reads something of another project.
    pub fn read_elsewhere(&self, project: &str, path: &[&str]) -> Result<Value, Trouble> {
        self.send_to(&self.config.endpoint, Method::Get, &below(project, path), &[], Body::None)
    }

    /// Begins something: what comes back is an operation.
    pub fn begin(
        &self,
        method: Method,
        path: &[&str],
        request_id: &str,
        body: Option<&Value>,
    ) -> Result<Operation, Trouble> {
        let body = body.map_or(Body::None, |body| Body::Bytes(body.to_string().into_bytes()));
        let answer = self.send(method, path, &[("requestId", request_id)], body)?;
        Operation::read(&answer).ok_or_else(|| Trouble::Garbled("the answer is no operation".to_owned()))
    }

    /// Asks Resource Manager which of these permissions there are.
    pub fn permitted(&self, endpoint: &str, permissions: &[&str]) -> Result<Vec<String>, Trouble> {
        let body = serde_json::json!({ "permissions": permissions }).to_string().into_bytes();
        let of = format!("{}:testIamPermissions", self.config.project);
        let path = ["projects".to_owned(), of];
        let answer = self.send_to(endpoint, Method::Post, &path, &[], Body::Bytes(body))?;
        // Where there is none, the field is left out.
        if !answer.is_object() {
            return Err(Trouble::Garbled("the answer is no object".to_owned()));
        }
        let granted =
            answer.get("permissions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        Ok(granted.iter().filter_map(|permission| permission.as_str().map(str::to_owned)).collect())
    }

    fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Body,
    ) -> Result<Value, Trouble> {
        self.send_to(&self.config.endpoint, method, &below(&self.config.project, path), query, body)
    }

    fn send_to(
        &self,
        endpoint: &str,
        method: Method,
        path: &[String],
        query: &[(&str, &str)],
        body: Body,
    ) -> Result<Value, Trouble> {
        let mut request = Request::new(endpoint, method, &[]);
        request.path = path.to_vec();
        request.query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        if matches!(body, Body::Bytes(_)) {
            request.headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        request.body = body;
        let response = self.host.send(&request).map_err(Trouble::Failed)?;
        if !(200..300).contains(&response.status) {
            return Err(Trouble::Refused(Refused::read(&response)));
        }
        serde_json::from_slice(&response.body)
            .map_err(|_| Trouble::Garbled("the answer is no JSON".to_owned()))
    }

    /// An operation of a zone; none where it is not remembered any more.
    pub fn zone_operation(&self, zone: &str, name: &str) -> Result<Option<Operation>, Error> {
        self.operation(&["zones", zone, "operations", name], name)
    }

    /// An operation of the project.
    pub fn global_operation(&self, name: &str) -> Result<Option<Operation>, Error> {
        self.operation(&["global", "operations", name], name)
    }

    fn operation(&self, path: &[&str], name: &str) -> Result<Option<Operation>, Error> {
        let asked = || self.asked(format!("look how far {name} is"));
        match self.read(path, &[]) {
            Ok(answer) => {
                Operation::read(&answer).filter(|operation| operation.name == name).map(Some).ok_or_else(
                    || asked().error(&Trouble::Garbled("the answer is not that operation".to_owned())),
                )
            }
            // Ended ones are forgotten after a time: it says nothing of what they made.
            Err(trouble) if trouble.is_not_found() => Ok(None),
            Err(trouble) => Err(asked().error(&trouble)),
        }
    }

    /// An operation on an instance that has not ended.
    pub fn under_way(&self, at: &Location, kind: &str) -> Result<Option<Operation>, Error> {
        let filter = format!("(operationType={kind}) (status!=DONE)");
        self.look_for(at, &filter, |one| !one.done && one.kind == kind)
    }

    /// Whether Compute Engine took this machine away.
    pub fn was_preempted(&self, at: &Location, number: &str) -> Result<bool, Error> {
        let filter = format!("(operationType={PREEMPTED}) (targetId={number})");
        Ok(self.look_for(at, &filter, |one| one.kind == PREEMPTED)?.is_some())
    }

    fn look_for(
        &self,
        at: &Location,
        filter: &str,
        is_it: impl Fn(&Operation) -> bool,
    ) -> Result<Option<Operation>, Error> {
        let target = format!("/zones/{}/instances/{}", at.zone, at.name);
        let asked = || self.asked(format!("look what is done to {} in {}", at.name, at.zone));
        let mut token = String::new();
        loop {
            let mut query = vec![("filter", filter)];
            if !token.is_empty() {
                query.push(("pageToken", &token));
            }
            let answer = self
                .read(&["zones", &at.zone, "operations"], &query)
                .map_err(|trouble| asked().error(&trouble))?;
            if text(&answer, "/kind") != "compute#operationList" {
                let garbled = Trouble::Garbled("the answer is no list of operations".to_owned());
                return Err(asked().error(&garbled));
            }
            let items = answer.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let found = items
                .iter()
                .filter_map(Operation::read)
                .find(|one| is_it(one) && one.target.ends_with(&target));
            let next = text(&answer, "/nextPageToken");
            if found.is_some() || next.is_empty() {
                return Ok(found);
            }
            token = next;
        }
    }
}

fn below(project: &str, path: &[&str]) -> Vec<String> {
    ["projects", project].iter().chain(path).map(|segment| (*segment).to_owned()).collect()
}
