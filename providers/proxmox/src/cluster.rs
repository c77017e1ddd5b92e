//! The cluster's API: a method for each call, and the words for its failure.

mod trouble;

use provider_sdk::{
    Error, Level,
    http::{Body, Method, Pairs, Part, Request},
};
use serde_json::Value;

use crate::{Host, answer, config::Config, task, task::Outcome, upid::Upid};
pub use trouble::{Cause, Trouble};

/// Of a failed task's log.
const LINES: usize = 6;

/// See the module.
pub struct Cluster<'h, H> {
    pub host: &'h H,
    pub config: &'h Config,
}

/// A machine or container of the cluster, as far as the list of all tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    pub vmid: u32,
    pub node: String,
    pub is_machine: bool,
    /// Missing until the node's statistics come, and while a clone is begun.
    pub name: Option<String>,
    pub is_template: bool,
}

/// What runs at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Active {
    pub upid: String,
    pub kind: String,
    pub id: String,
}

/// What becomes a clone.
pub struct Clone<'a> {
    pub source: &'a str,
    pub template: u32,
    pub vmid: u32,
    pub node: &'a str,
    pub name: &'a str,
    pub description: &'a str,
    pub storage: Option<&'a str>,
}

impl<'h, H: Host> Cluster<'h, H> {
    pub fn new(host: &'h H, config: &'h Config) -> Self {
        Self { host, config }
    }

    /// One request by one endpoint.
    fn send(&self, endpoint: &str, node: &str, what: String, request: Request) -> Result<Value, Trouble> {
        let request = Request { endpoint: endpoint.to_owned(), ..request };
        let trouble = |cause| Trouble { node: node.to_owned(), what: what.clone(), cause };
        let response = self.host.send(&request).map_err(|failure| trouble(Cause::Failed(failure)))?;
        answer::read(&response).map_err(|refusal| trouble(Cause::Said(refusal)))
    }

    /// Something of one node, by its own endpoint. `path` goes on behind its name.
    fn at(
        &self,
        node: &str,
        method: Method,
        path: &[&str],
        fields: Pairs,
        what: String,
    ) -> Result<Value, Trouble> {
        let path: Vec<&str> = ["nodes", node].iter().chain(path).copied().collect();
        let mut request = Request::new("", method, &path);
        match method {
            // Without a field there is nothing to be sent, and the length is 0.
            Method::Post | Method::Put | Method::Patch => request.body = Body::Form(fields),
            Method::Get | Method::Delete => request.query = fields,
        }
        self.send(self.config.endpoint(node), node, what, request)
    }

    fn machine(
        &self,
        node: &str,
        vmid: u32,
        method: Method,
        path: &[&str],
        fields: Pairs,
        what: &str,
    ) -> Result<Value, Trouble> {
        let number = vmid.to_string();
        let path: Vec<&str> = ["qemu", number.as_str()].iter().chain(path).copied().collect();
        self.at(node, method, &path, fields, format!("{what} machine {vmid}"))
    }

    fn read(&self, node: &str, vmid: u32, path: &[&str], what: &str) -> Result<Value, Trouble> {
        self.machine(node, vmid, Method::Get, path, Pairs::new(), what)
    }

    /// Every guest of the cluster that the token may see, by the first endpoint that answers.
    pub fn guests(&self) -> Result<Vec<Guest>, Trouble> {
        let mut first = None;
        for endpoint in self.config.endpoints() {
            match self.guests_by(endpoint) {
                Ok(guests) => return Ok(guests),
                Err(trouble) if trouble.is_the_nodes() => first = first.or(Some(trouble)),
                Err(trouble) => return Err(trouble),
            }
        }
        Err(first.unwrap_or_else(Trouble::nobody))
    }

    /// The same by one endpoint.
    pub fn guests_by(&self, endpoint: &str) -> Result<Vec<Guest>, Trouble> {
        let mut request = Request::new("", Method::Get, &["cluster", "resources"]);
        request.query = pairs(&[("type", "vm")]);
        let what = "list the machines".to_owned();
        let data = self.send(endpoint, endpoint, what.clone(), request)?;
        let garbled = || Trouble::garbled(endpoint, what.clone());
        data.as_array().ok_or_else(garbled)?.iter().map(|entry| guest(entry).ok_or_else(garbled)).collect()
    }

    /// What the token may do where.
    pub fn permissions(&self, endpoint: &str) -> Result<Value, Trouble> {
        let request = Request::new("", Method::Get, &["access", "permissions"]);
        self.send(endpoint, endpoint, "read the token's permissions".to_owned(), request)
    }

    pub fn version(&self, endpoint: &str) -> Result<Value, Trouble> {
        let request = Request::new("", Method::Get, &["version"]);
        self.send(endpoint, endpoint, "ask for the version".to_owned(), request)
    }

    pub fn node_status(&self, node: &str) -> Result<Value, Trouble> {
        self.at(node, Method::Get, &["status"], Pairs::new(), "ask for the node's state".to_owned())
    }

    pub fn storage(&self, node: &str, storage: &str) -> Result<Value, Trouble> {
        let what = format!("look at storage {storage}");
        self.at(node, Method::Get, &["storage", storage, "status"], Pairs::new(), what)
    }

    /// The ISO images on a storage, by their volume ids.
    pub fn images(&self, node: &str, storage: &str) -> Result<Vec<String>, Trouble> {
        let what = format!("list the images on storage {storage}");
        let fields = pairs(&[("content", "iso")]);
        let data = self.at(node, Method::Get, &["storage", storage, "content"], fields, what.clone())?;
        let list = data.as_array().ok_or_else(|| Trouble::garbled(node, what))?;
        Ok(list.iter().filter_map(|entry| Some(entry.get("volid")?.as_str()?.to_owned())).collect())
    }

    /// A machine's config, with what is pending.
    pub fn machine_config(&self, node: &str, vmid: u32) -> Result<Value, Trouble> {
        self.read(node, vmid, &["config"], "read the config of")
    }

    pub fn status(&self, node: &str, vmid: u32) -> Result<Value, Trouble> {
        self.read(node, vmid, &["status", "current"], "ask for the state of")
    }

    pub fn interfaces(&self, node: &str, vmid: u32) -> Result<Value, Trouble> {
        self.read(node, vmid, &["agent", "network-get-interfaces"], "ask the guest agent of")
    }

    pub fn set(&self, node: &str, vmid: u32, fields: Pairs) -> Result<(), Trouble> {
        self.machine(node, vmid, Method::Put, &["config"], fields, "set the config of").map(drop)
    }

    /// None where the server does it at once, as older ones do.
    pub fn resize(&self, node: &str, vmid: u32, disk: &str, gib: u64) -> Result<Option<Upid>, Trouble> {
        let fields = pairs(&[("disk", disk), ("size", &format!("{gib}G"))]);
        let what = "let grow the disk of";
        let data = self.machine(node, vmid, Method::Put, &["resize"], fields, what)?;
        self.begun_or_done(node, what, &data)
    }

    pub fn start(&self, node: &str, vmid: u32) -> Result<Upid, Trouble> {
        self.begin(node, vmid, Method::Post, &["status", "start"], &[], "start")
    }

    pub fn stop(&self, node: &str, vmid: u32) -> Result<Upid, Trouble> {
        self.begin(node, vmid, Method::Post, &["status", "stop"], &[], "stop")
    }

    /// With its disks, and whatever names it in the cluster.
    pub fn destroy(&self, node: &str, vmid: u32) -> Result<Upid, Trouble> {
        let fields = [("purge", "1"), ("destroy-unreferenced-disks", "1")];
        self.begin(node, vmid, Method::Delete, &[], &fields, "destroy")
    }

    fn begin(
        &self,
        node: &str,
        vmid: u32,
        method: Method,
        path: &[&str],
        fields: &[(&str, &str)],
        what: &str,
    ) -> Result<Upid, Trouble> {
        let data = self.machine(node, vmid, method, path, pairs(fields), what)?;
        self.begun(node, &format!("{what} machine {vmid}"), &data)
    }

    pub fn clone(&self, clone: &Clone<'_>) -> Result<Upid, Trouble> {
        let full = if self.config.full_clones { "1" } else { "0" };
        let number = clone.vmid.to_string();
        let mut fields = vec![
            ("newid", number.as_str()),
            ("name", clone.name),
            // Without one it would inherit the template's.
            ("description", clone.description),
            ("full", full),
        ];
        fields.extend(clone.storage.filter(|_| self.config.full_clones).map(|storage| ("storage", storage)));
        fields.extend(self.config.pool.as_deref().map(|pool| ("pool", pool)));
        fields.extend((clone.source != clone.node).then_some(("target", clone.node)));
        let template = clone.template.to_string();
        let what = format!("clone template {template} as {} ({number})", clone.name);
        let path = ["qemu", template.as_str(), "clone"];
        let data = self.at(clone.source, Method::Post, &path, pairs(&fields), what.clone())?;
        self.begun(clone.source, &what, &data)
    }

    /// What stands there under this name is overwritten.
    pub fn upload(&self, node: &str, storage: &str, file: &str, image: Vec<u8>) -> Result<Upid, Trouble> {
        let part = |name: &str, data: Vec<u8>| Part { name: name.to_owned(), data, ..Part::default() };
        // The file comes last: what stands behind it is not read.
        let parts = vec![
            part("content", b"iso".to_vec()),
            Part { file_name: Some(file.to_owned()), ..part("filename", image) },
        ];
        let mut request = Request::new("", Method::Post, &["nodes", node, "storage", storage, "upload"]);
        request.body = Body::Multipart(parts);
        let what = format!("upload {file} to storage {storage}");
        let data = self.send(self.config.endpoint(node), node, what.clone(), request)?;
        self.begun(node, &what, &data)
    }

    /// None where it is done already. What is missing is no failure.
    pub fn erase(&self, node: &str, storage: &str, volume: &str) -> Result<Option<Upid>, Trouble> {
        let what = format!("delete {volume}");
        let path = ["storage", storage, "content", volume];
        let data = self.at(node, Method::Delete, &path, pairs(&[("delay", "1")]), what.clone())?;
        self.begun_or_done(node, &what, &data)
    }

    pub fn firewall(&self, node: &str, vmid: u32) -> Result<Value, Trouble> {
        self.read(node, vmid, &["firewall", "rules"], "read the firewall rules of")
    }

    pub fn add_rule(&self, node: &str, vmid: u32, fields: Pairs) -> Result<(), Trouble> {
        let path = ["firewall", "rules"];
        self.machine(node, vmid, Method::Post, &path, fields, "add a firewall rule to").map(drop)
    }

    pub fn arm_firewall(&self, node: &str, vmid: u32) -> Result<(), Trouble> {
        let fields = pairs(&[("enable", "1"), ("policy_in", "DROP"), ("policy_out", "ACCEPT")]);
        let path = ["firewall", "options"];
        self.machine(node, vmid, Method::Put, &path, fields, "switch on the firewall of").map(drop)
    }

    /// What runs at a node, as far as the token may see it: its own tasks, at least.
    pub fn active(&self, node: &str, of_machine: Option<u32>) -> Result<Vec<Active>, Trouble> {
        let number = of_machine.map(|vmid| vmid.to_string());
        let mut fields = vec![("source", "active"), ("limit", "500")];
        fields.extend(number.as_deref().map(|number| ("vmid", number)));
        let what = "list the tasks that run".to_owned();
        let data = self.at(node, Method::Get, &["tasks"], pairs(&fields), what.clone())?;
        let list = data.as_array().ok_or_else(|| Trouble::garbled(node, what))?;
        let text =
            |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let active = list.iter().filter(|entry| entry.get("endtime").is_none()).map(|entry| Active {
            upid: text(entry, "upid"),
            kind: text(entry, "type"),
            id: text(entry, "id"),
        });
        Ok(active.collect())
    }

    /// How a task is. One that its node does not know any more has an end that nobody knows.
    pub fn outcome(&self, upid: &Upid) -> Result<Outcome, Trouble> {
        let handle = upid.to_string();
        let what = format!("ask for the task {}", upid.kind);
        let path = ["tasks", handle.as_str(), "status"];
        match self.at(&upid.node, Method::Get, &path, Pairs::new(), what) {
            Ok(data) => Ok(task::outcome(&data)),
            Err(trouble) if trouble.status() == Some(400) => {
                Ok(Outcome::Unknown("the node does not know the task any more".to_owned()))
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// A failed task, in its own words and with the end of its log.
    pub fn failed(&self, upid: &Upid, what: &str, text: &str) -> Error {
        let handle = upid.to_string();
        let path = ["tasks", handle.as_str(), "log"];
        let asked = "read the task's log".to_owned();
        let log = match self.at(&upid.node, Method::Get, &path, pairs(&[("limit", "500")]), asked) {
            Ok(data) => log(&data),
            // The task's own words are the more important ones.
            Err(trouble) => {
                let cause = Error::from(trouble).message;
                self.host.write(Level::Warn, "a task's log could not be read", &[("cause", &cause)]);
                String::new()
            }
        };
        let told = match log.as_str() {
            "" => format!("node {}: {what}: {text}", upid.node),
            log => format!("node {}: {what}: {text}; its log ends: {log}", upid.node),
        };
        answer::said(crate::phrases::meaning(text), told).forget_progress()
    }

    fn begun(&self, node: &str, what: &str, data: &Value) -> Result<Upid, Trouble> {
        data.as_str().and_then(Upid::read).ok_or_else(|| Trouble::garbled(node, what.to_owned()))
    }

    fn begun_or_done(&self, node: &str, what: &str, data: &Value) -> Result<Option<Upid>, Trouble> {
        if data.is_null() { Ok(None) } else { self.begun(node, what, data).map(Some) }
    }
}

/// Owned pairs of borrowed ones.
pub fn pairs(fields: &[(&str, &str)]) -> Pairs {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A number however it is written.
pub fn number(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        Value::Bool(set) => Some(u64::from(*set)),
        _ => None,
    }
}

/// A text, not empty.
pub fn text<'a>(of: &'a Value, key: &str) -> Option<&'a str> {
    of.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn guest(entry: &Value) -> Option<Guest> {
    Some(Guest {
        vmid: number(entry.get("vmid")).and_then(|number| u32::try_from(number).ok())?,
        node: text(entry, "node")?.to_owned(),
        is_machine: text(entry, "type")? == "qemu",
        name: text(entry, "name").map(str::to_owned),
        is_template: number(entry.get("template")) == Some(1),
    })
}

/// The last lines that say something, without the one that repeats the exit status.
fn log(data: &Value) -> String {
    let lines = data.as_array().map(Vec::as_slice).unwrap_or_default();
    let lines = lines.iter().filter_map(|line| line.get("t")?.as_str()).map(str::trim);
    let told: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with("TASK ")).collect();
    told.get(told.len().saturating_sub(LINES)..).unwrap_or_default().join(" | ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_end_of_a_log_is_told_without_its_last_line_which_repeats_the_status() {
        let line = |text: &str| json!({ "n": 1, "t": text });
        let mut lines: Vec<Value> = (0..9).map(|n| line(&format!("line {n}"))).collect();
        lines.push(line("TASK ERROR: clone failed"));
        assert_eq!(log(&Value::Array(lines)), "line 3 | line 4 | line 5 | line 6 | line 7 | line 8");
        assert_eq!(log(&Value::Null), "");
    }

    #[test]
    fn a_guest_of_which_little_is_known_is_one() {
        let entry = json!({ "id": "qemu/102", "lock": "clone", "status": "unknown", "vmid": 102, "type": "qemu", "node": "pve1" });
        let seen = guest(&entry).unwrap();
        assert_eq!((seen.vmid, seen.name, seen.is_machine, seen.is_template), (102, None, true, false));
        assert_eq!(guest(&json!({ "vmid": "103", "type": "lxc", "node": "pve1" })).unwrap().vmid, 103);
        assert_eq!(guest(&json!({ "type": "qemu" })), None);
    }
}
