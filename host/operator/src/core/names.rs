//! Names as Kubernetes takes them, checked before they go into a path of its API.
//!
//! A CRD refuses others at the door; but an object may be older than its CRD's rules, and a name like
//! `../../x` would be asked for with the operator's rights, somewhere else.

use crate::{api::CloudInit, core::store::UserDataError};

const OBJECT: &str = "an object's name has at most 253 of a-z, 0-9, '-' and '.', and each part between dots \
                      begins and ends with a letter or digit";
const KEY: &str = "a key has at most 253 of a-z, A-Z, 0-9, '-', '_' and '.'";
/// What a revision must be like.
pub const REVISION: &str = "a revision has at most 64 hexadecimal digits";

/// Of any object that user-data can come from.
pub fn is_object_name(name: &str) -> bool {
    let inside = |byte: u8| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(inside) && !part.starts_with('-') && !part.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(part)
}

/// Of a Secret or ConfigMap.
pub fn is_key(key: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=253).contains(&key.len()) && key.bytes().all(inside)
}

/// Of an entry.
pub fn is_revision(revision: &str) -> bool {
    let inside = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (1..=64).contains(&revision.len()) && revision.bytes().all(inside)
}

/// Whether what it names can exist.
pub fn check_user_data(source: &CloudInit) -> Result<(), UserDataError> {
    let refs = [("secretRef", &source.secret_ref), ("configMapRef", &source.config_map_ref)];
    for (of, at) in refs.into_iter().filter_map(|(of, at)| Some((of, at.as_ref()?))) {
        let invalid = |field: &str, value: &str, rule| {
            let field = format!("spec.cloudInit.{of}.{field}");
            Err(UserDataError::Invalid { field, value: value.to_owned(), rule })
        };
        if !is_object_name(&at.name) {
            return invalid("name", &at.name, OBJECT);
        }
        if !is_key(&at.key) {
            return invalid("key", &at.key, KEY);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_elsewhere_is_none() {
        for good in ["squid", "a", "a.b", "0-1.example.com"] {
            assert!(is_object_name(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "../x", "a?b", "a#b", "a%2fb", "A", "-a", "a-", "a..b", "a b", "ä"]
        {
            assert!(!is_object_name(bad), "{bad}");
        }
        assert!(!is_object_name(&"a".repeat(254)));
        assert!(is_key("user-data_1.Txt") && !is_key("") && !is_key("a/b") && !is_key("a b"));
        assert!(
            is_revision("0123456789ab") && !is_revision("") && !is_revision("12/34") && !is_revision("AB")
        );
    }
}
