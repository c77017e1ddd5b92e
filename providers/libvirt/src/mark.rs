//! The mark in a domain's metadata: one element of the component's own namespace, a child for each pair.
//!
//! libvirt answers such an element without its declaration, so it is told by its local name alone; the
//! namespace was what it was asked for by.

use provider_sdk::{Mark, time};

use crate::xml::{self, Element};

/// The prefix that libvirt writes before the element's name.
pub const KEY: &str = "egress";
const ELEMENT: &str = "instance";
const CREATED_AT: &str = "createdAt";

/// What stands in the metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    pub mark: Mark,
    pub created_ms: Option<u64>,
}

/// The element, with its namespace where one is given.
pub fn write(mark: &Mark, created_ms: u64, namespace: Option<&str>) -> String {
    let declared = namespace.map(|uri| format!(" xmlns=\"{}\"", xml::escape(uri))).unwrap_or_default();
    let pairs: String =
        mark.iter().map(|(key, value)| format!("<{key}>{}</{key}>", xml::escape(value))).collect();
    let created = time::rfc3339(created_ms);
    format!("<{ELEMENT}{declared}>{pairs}<{CREATED_AT}>{created}</{CREATED_AT}></{ELEMENT}>")
}

/// Reads the element, pairs in the order of `like`; none for what is no such element.
pub fn read(text: &str, like: &Mark) -> Option<Marked> {
    let element = xml::parse(text).filter(|element| element.name == ELEMENT)?;
    let created_ms = element.text_at(&[CREATED_AT]).and_then(time::rfc3339_ms);
    let pair = |child: &Element| (child.name.clone(), child.text.trim().to_owned());
    let mut mark: Mark = element.children.iter().filter(|child| child.name != CREATED_AT).map(pair).collect();
    let place = |key: &str| like.iter().position(|(known, _)| known == key).unwrap_or(like.len());
    mark.sort_by_key(|(key, _)| place(key));
    Some(Marked { mark, created_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let mark: Mark =
            [("managed", "true"), ("uid", "u-1")].map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
        let text = write(&mark, 1_770_091_506_789, Some("https://example.org/x"));
        let read_back = read(&text, &mark).unwrap();
        assert_eq!(read_back, Marked { mark: mark.clone(), created_ms: Some(1_770_091_506_000) });
        let swapped = "<e:instance xmlns:e='x'><uid>u-1</uid><managed>true</managed></e:instance>";
        assert_eq!(read(swapped, &mark).unwrap().mark, mark);
        assert_eq!(read("<html/>", &mark), None);
    }
}
