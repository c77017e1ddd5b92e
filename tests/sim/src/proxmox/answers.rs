//! What the server answers, to the letter.

use egress_runtime::capability::HttpResponse;
use serde_json::{Map, Value, json};

use super::state::Line;

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub status: u16,
    /// Its first line is the reason phrase.
    pub text: String,
    /// By parameter.
    pub errors: Vec<(String, String)>,
    /// 401 and what another node's transport says have none.
    pub bodiless: bool,
}

pub type Answer<T = Value> = Result<T, Refused>;

/// Nearly everything.
pub fn fails(text: impl Into<String>) -> Refused {
    Refused { status: 500, text: text.into(), errors: Vec::new(), bodiless: false }
}

/// A parameter is at fault.
pub fn parameter(name: &str, text: &str) -> Refused {
    Refused {
        status: 400,
        text: "Parameter verification failed.".to_owned(),
        errors: vec![(name.to_owned(), text.to_owned())],
        bodiless: false,
    }
}

pub fn unknown_parameter(name: &str) -> Refused {
    parameter(name, "property is not defined in schema and the schema does not allow additional properties")
}

pub fn missing_parameter(name: &str) -> Refused {
    parameter(name, "property is missing and it is not optional")
}

pub fn forbidden(path: &str, privilege: &str) -> Refused {
    let text = format!("Permission check failed ({path}, {privilege})");
    Refused { status: 403, ..fails(text) }
}

pub fn no_pool(pool: &str) -> Refused {
    Refused { status: 403, ..fails(format!("Permission check failed (pool '{pool}' does not exist)")) }
}

pub fn unknown_token(line: Line) -> Refused {
    let text = match line {
        Line::V8 => "invalid token value!",
        Line::V9 => "Authentication failed!",
    };
    Refused { status: 401, bodiless: true, ..fails(text) }
}

/// The node that was asked can't reach the one that it is about.
pub fn unreachable() -> Refused {
    Refused { status: 595, bodiless: true, ..fails("No route to host") }
}

pub fn unknown_node(node: &str) -> Refused {
    fails(format!(
        "hostname lookup '{node}' failed - failed to get address info for: {node}: Name or service not known"
    ))
}

pub fn not_implemented(method: &str, path: &str) -> Refused {
    Refused { status: 501, ..fails(format!("Method '{method} {path}' not implemented")) }
}

pub fn no_config(node: &str, vmid: u32) -> Refused {
    fails(no_config_text(node, vmid))
}

pub fn no_config_text(node: &str, vmid: u32) -> String {
    format!("Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist")
}

pub fn locked(lock: &str) -> String {
    format!("VM is locked ({lock})")
}

pub fn lock_timeout(vmid: u32) -> String {
    format!("can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout")
}

/// From memory.
pub fn no_volume(volume: &str) -> String {
    format!("volume '{volume}' does not exist")
}

pub fn no_storage(storage: &str) -> String {
    format!("storage '{storage}' does not exist")
}

/// A page of something in between.
pub fn page(status: u16, reason: &str) -> HttpResponse {
    HttpResponse {
        status,
        reason: reason.to_owned(),
        headers: vec![("content-type".to_owned(), "text/html".to_owned())],
        body: format!("<html><head><title>{status} {reason}</title></head></html>").into_bytes(),
    }
}

/// An answer that has not what it should have.
pub fn garbage() -> HttpResponse {
    HttpResponse {
        status: 200,
        reason: "OK".to_owned(),
        body: b"{\"dat\":".to_vec(),
        ..HttpResponse::default()
    }
}

/// To a token that is not known any more.
pub fn unauthorized() -> HttpResponse {
    written(Err(unknown_token(Line::V9)), false, Line::V9)
}

/// Writes what came of a request as the server does. What a privileged daemon served has two headers of one name.
pub fn written(answer: Answer, protected: bool, line: Line) -> HttpResponse {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut headers = vec![pair("server", "pve-api-daemon/3.0")];
    let (status, reason, body) = match answer {
        Ok(data) => {
            if protected {
                headers.push(pair("connection", "close"));
            }
            headers.push(pair("connection", "Keep-Alive"));
            (200, "OK".to_owned(), json!({ "data": data }).to_string())
        }
        Err(refused) => {
            headers.push(pair("connection", "close"));
            let reason = refused.text.lines().next().unwrap_or_default().to_owned();
            let body = if refused.bodiless { String::new() } else { error_body(&refused, line) };
            (refused.status, reason, body)
        }
    };
    if !body.is_empty() {
        headers.push(pair("content-type", "application/json;charset=UTF-8"));
    }
    HttpResponse { status, reason, headers, body: body.into_bytes() }
}

fn error_body(refused: &Refused, line: Line) -> String {
    let mut body = Map::new();
    body.insert("data".to_owned(), Value::Null);
    if line == Line::V9 {
        body.insert("message".to_owned(), format!("{}\n", refused.text).into());
    }
    if !refused.errors.is_empty() {
        let errors: Map<String, Value> =
            refused.errors.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
        body.insert("errors".to_owned(), Value::Object(errors));
    }
    Value::Object(body).to_string()
}
