//! Where URLs lead, for whoever goes there by a connection of its own.

use http::Uri;

/// Name and port as they stand in the URL: its path may be a secret.
pub fn server(url: &Uri) -> String {
    url.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default()
}

/// As a resolver or a certificate has it.
pub fn host(url: &Uri) -> &str {
    url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

/// The URL that a reference means, which was read at another: as a browser would, without a fragment.
pub fn absolute(from: &Uri, to: &str) -> String {
    let to = to.split('#').next().unwrap_or_default();
    let (scheme, server) = (from.scheme_str().unwrap_or_default(), server(from));
    if to.contains("://") {
        return to.to_owned();
    }
    if let Some(rest) = to.strip_prefix("//") {
        return format!("{scheme}://{rest}");
    }
    if to.starts_with('/') {
        return format!("{scheme}://{server}{to}");
    }
    let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{scheme}://{server}{folder}/{to}")
}
