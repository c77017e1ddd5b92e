//! What names, labels and keys may look like, with the API server's own explanations.

use egress_runtime::capability::Resource;

pub(super) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
     start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
pub(super) const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
     with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
     'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const NAME_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
     character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
     and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
     validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn too_long(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

/// What names are measured in.
fn too_many_characters(most: usize) -> String {
    format!("must be no more than {most} characters")
}

fn is_label(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// Of most objects' names.
pub(super) fn subdomain_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 253 {
        faults.push(too_many_characters(253));
    }
    if !text.split('.').all(is_label) {
        faults.push(SUBDOMAIN.to_owned());
    }
    faults
}

/// Of namespaces, containers, volumes.
pub(super) fn label_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push(too_many_characters(63));
    }
    if !is_label(text) {
        faults.push(LABEL.to_owned());
    }
    faults
}

fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// `name`, or `example.com/name`.
pub(super) fn label_key_fault(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return Some(format!(
                "a valid label key {NAME_PART} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            ));
        }
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    match prefix {
        Some("") => return Some("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            if let Some(fault) = subdomain_faults(prefix).first() {
                return Some(format!("prefix part {fault}"));
            }
        }
        None => {}
    }
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    if name.len() > 63 {
        return Some(format!("name part {}", too_long(63)));
    }
    (!is_name_part(name)).then(|| format!("name part {NAME_PART}"))
}

pub(super) fn label_value_fault(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some(too_long(63));
    }
    (!value.is_empty() && !is_name_part(value)).then(|| LABEL_VALUE.to_owned())
}

/// Of ConfigMaps' and Secrets' data.
pub(super) fn config_key_fault(key: &str) -> Option<String> {
    if key.len() > 253 {
        return Some(too_long(253));
    }
    match key {
        "." => return Some("must not be '.'".to_owned()),
        ".." => return Some("must not be '..'".to_owned()),
        key if key.starts_with("..") => return Some("must not start with '..'".to_owned()),
        _ => {}
    }
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (key.is_empty() || !key.bytes().all(legal)).then(|| CONFIG_KEY.to_owned())
}

/// What can't stand in a path, in the words of the capability, which refuses it before anything is sent.
pub(super) fn check_path(resource: &Resource, namespace: &str, name: Option<&str>) -> Result<(), String> {
    let Resource { api_version, plural } = resource;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let group_fits =
        !api_version.starts_with('/') && (group.is_empty() || subdomain_faults(group).is_empty());
    if !group_fits || !version.starts_with('v') || !label_faults(version).is_empty() {
        return Err(format!("{api_version:?} is not an API version, such as v1 or apps/v1"));
    }
    let fits = match plural.split_once('/') {
        Some((plural, subresource)) => {
            label_faults(plural).is_empty() && label_faults(subresource).is_empty()
        }
        None => label_faults(plural).is_empty(),
    };
    if !fits {
        return Err(format!("{plural:?} is not a resource's plural name, such as pods or pods/status"));
    }
    if !namespace.is_empty() && !label_faults(namespace).is_empty() {
        return Err(format!("{namespace:?} is not a namespace's name"));
    }
    let legal = |b: u8| b.is_ascii_graphic() && !matches!(b, b'/' | b'%' | b'?' | b'#' | b'\\');
    let is_name = |name: &str| {
        (1..=253).contains(&name.len()) && name.bytes().any(|b| b != b'.') && name.bytes().all(legal)
    };
    match name.filter(|name| !is_name(name)) {
        Some(name) => Err(format!("{name:?} is not an object's name")),
        None => Ok(()),
    }
}
