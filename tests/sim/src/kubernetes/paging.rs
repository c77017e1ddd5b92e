//! Lists in pages.
//!
//! A token names the version that the first page saw and the last object that was answered, as the API server's
//! does; so a page shows what was there when the list began, until that past is compacted.

use std::sync::Arc;

use base64::{
    Engine,
    alphabet::URL_SAFE,
    engine::{GeneralPurpose, general_purpose::NO_PAD},
};
use egress_runtime::capability::ListOptions;
use serde_json::{Value, json};

use super::{
    json::text,
    kinds::Kind,
    selectors::Selector,
    status::{Answer, bad_request, status},
    store::{Key, Store},
};

const FORM: &str = "meta.k8s.io/v1";
/// Go does not mind bits that are left over.
const BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));
/// The past is kept at least this long, and at most twice.
pub(super) const COMPACTION_MS: u64 = 300_000;

/// Where a list goes on.
struct Token {
    /// None for what is there now.
    version: Option<u64>,
    behind: Key,
}

/// One page.
/// `expire` is how a test has every token expire.
pub(super) fn list(
    store: &Store,
    kind: &Kind,
    namespace: &str,
    options: &ListOptions,
    expire: bool,
) -> Answer<Value> {
    let resource = kind.qualified();
    let selector = Selector::parse(kind, &options.label_selector, &options.field_selector)?;
    let token = match options.continue_token.as_deref().filter(|token| !token.is_empty()) {
        Some(token) => Token::read(token, &resource, namespace)?,
        None => Token { version: None, behind: Key::new(&resource, namespace, "") },
    };
    if expire && token.version.is_some() {
        return Err(expired());
    }
    let version = token.version.unwrap_or_else(|| store.version());
    if version > store.version() {
        return Err(too_large(version, store.version()));
    }
    let objects = store.of_at(&resource, namespace, version, &token.behind).map_err(|_| expired())?;
    let limit = match usize::try_from(options.limit) {
        Ok(0) | Err(_) => usize::MAX,
        Ok(limit) => limit,
    };
    let mut items = Vec::new();
    let mut next = None;
    let mut objects = objects.into_iter();
    for object in objects.by_ref() {
        if !selector.matches(&object) {
            continue;
        }
        items.push(object);
        if items.len() == limit {
            next = items.last().map(|last| Token::behind(version, last, namespace));
            break;
        }
    }
    let left = objects.len();
    let mut metadata = json!({ "resourceVersion": version.to_string() });
    // With a selector nobody knows how many of those that are left match.
    if let (Value::Object(fields), Some(next)) = (&mut metadata, next.filter(|_| left > 0)) {
        fields.insert("continue".to_owned(), next.into());
        if selector.is_empty() {
            fields.insert("remainingItemCount".to_owned(), left.into());
        }
    }
    let items: Vec<Value> = items.iter().map(item).collect();
    Ok(json!({
        "kind": format!("{}List", kind.kind), "apiVersion": kind.api_version, "metadata": metadata, "items": items,
    }))
}

/// Within a list an object says neither kind nor version.
fn item(object: &Arc<Value>) -> Value {
    let mut item = Value::clone(object);
    if let Value::Object(fields) = &mut item {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    item
}

impl Token {
    fn behind(version: u64, last: &Value, namespace: &str) -> String {
        let (of, name) = (text(last, &["metadata", "namespace"]), text(last, &["metadata", "name"]));
        let start = match namespace {
            "" if !of.is_empty() => format!("/{of}/{name}\0"),
            _ => format!("/{name}\0"),
        };
        // The order of the fields is the API server's.
        let start = Value::from(start);
        BASE64.encode(format!("{{\"v\":\"{FORM}\",\"rv\":{version},\"start\":{start}}}"))
    }

    fn read(token: &str, resource: &str, namespace: &str) -> Answer<Self> {
        let refused =
            |why: &str| bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = BASE64.decode(token).map_err(|error| refused(&illegal_base64(token, &error)))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|_| {
            let first = String::from_utf8_lossy(&bytes).chars().next().unwrap_or_default();
            refused(&format!("invalid character {} looking for beginning of value", quoted(&bytes, first)))
        })?;
        match text(&token, &["v"]) {
            FORM => {}
            other => return Err(refused(&format!("server does not recognize this encoded version {other}"))),
        }
        let start = text(&token, &["start"]);
        if start.is_empty() {
            return Err(refused(&format!("encoded start key empty (version {FORM})")));
        }
        let start = start.strip_prefix('/').unwrap_or(start);
        if start.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(refused(start));
        }
        let version = match token.get("rv").and_then(Value::as_i64) {
            None | Some(0) => {
                return Err(refused(&format!("incorrect encoded start resourceVersion (version {FORM})")));
            }
            Some(version) => u64::try_from(version).ok(),
        };
        // The zero byte makes the least key behind that name.
        let start = start.trim_end_matches('\0');
        let behind = match (namespace, start.split_once('/')) {
            ("", Some((of, name))) => Key::new(resource, of, name),
            ("", None) => Key::new(resource, "", start),
            (namespace, _) => Key::new(resource, namespace, start),
        };
        Ok(Self { version, behind })
    }
}

fn quoted(bytes: &[u8], first: char) -> String {
    match bytes.first() {
        Some(byte) if !byte.is_ascii_graphic() => format!("'\\u{byte:04x}'"),
        _ => format!("'{first}'"),
    }
}

fn illegal_base64(token: &str, error: &base64::DecodeError) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        _ => token.len(),
    };
    format!("illegal base64 data at input byte {at}")
}

fn expired() -> egress_runtime::capability::KubernetesFailure {
    status(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of \
         the results. Continuing with the provided token results in an inconsistent list - objects that were \
         created, modified, or deleted between the time the first chunk was returned and now may show up in the \
         list.",
        json!({}),
    )
}

fn too_large(asked: u64, current: u64) -> egress_runtime::capability::KubernetesFailure {
    status(
        504,
        "Timeout",
        format!("Timeout: Too large resource version: {asked}, current: {current}"),
        json!({
            "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            "retryAfterSeconds": 1,
        }),
    )
}
