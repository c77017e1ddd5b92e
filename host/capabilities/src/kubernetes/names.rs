//! What may stand in a path: a name that is none could reach another object, or another API.

/// A namespace: RFC 1123 label.
pub(super) fn is_label(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// An API group, most objects' names: labels between dots.
pub(super) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// `pods`, or `pods/status`.
pub(super) fn is_plural(text: &str) -> bool {
    match text.split_once('/') {
        Some((plural, subresource)) => is_label(plural) && is_label(subresource),
        None => is_label(text),
    }
}

/// `v1`, `v1beta1`.
pub(super) fn is_version(text: &str) -> bool {
    is_label(text) && text.starts_with('v')
}

/// An object's name, as wide as the API server has it: RBAC's names hold colons and capitals.
pub(crate) fn is_object(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.bytes().any(|b| b != b'.')
        && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'/' | b'%' | b'?' | b'#' | b'\\'))
}

/// How the provider's config calls a cluster.
pub(super) fn is_cluster(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_elsewhere_is_none() {
        for name in
            ["", ".", "..", "a/b", "../secrets", "a%2fb", "a?b", "a#b", "a\\b", "a b", "a\nb", "ä", "..."]
        {
            assert!(!is_object(name), "{name:?}");
        }
        for name in ["a", "proxy-a.b", "system:controller:Foo"] {
            assert!(is_object(name), "{name:?}");
        }
        for namespace in ["", ".", "..", "a/b", "-a", "a-", "A", &"a".repeat(64)] {
            assert!(!is_label(namespace), "{namespace:?}");
        }
        for plural in ["", "pods/", "/status", "pods/status/x", "../pods", "pods/..", "Pods"] {
            assert!(!is_plural(plural), "{plural:?}");
        }
        assert!(is_plural("pods") && is_plural("pods/status") && is_label("a-1"));
        assert!(is_version("v1") && is_version("v1beta1") && !is_version("1") && !is_version("v1/.."));
    }
}
