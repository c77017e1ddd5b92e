//! Domains by their documents.

use std::collections::BTreeMap;

use super::answers::{self, Answer};

/// What a definition says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    pub name: String,
    pub uuid: Option<String>,
    pub kind: String,
    pub memory: u64,
    pub efi: bool,
    pub agent: bool,
    pub files: Vec<String>,
    pub bridges: Vec<String>,
    /// By namespace; the element as libvirt answers it, without its declaration.
    pub metadata: BTreeMap<String, String>,
}

/// Reads a document.
pub fn read(xml: &str) -> Answer<Definition> {
    let document = roxmltree::Document::parse(xml).map_err(|_| answers::domain_xml_broken())?;
    let root = document.root_element();
    let child = |of: roxmltree::Node<'_, '_>, name: &str| -> Option<String> {
        of.children().find(|child| child.has_tag_name(name))?.text().map(|text| text.trim().to_owned())
    };
    let kind = root.attribute("type").unwrap_or_default();
    if !["kvm", "qemu"].contains(&kind) {
        return Err(answers::domain_type(kind));
    }
    let name =
        child(root, "name").filter(|name| !name.is_empty()).ok_or_else(answers::domain_without_name)?;
    let memory = root.children().find(|child| child.has_tag_name("memory"));
    let memory = memory.ok_or_else(answers::domain_without_memory)?;
    let amount: u64 = memory.text().and_then(|text| text.trim().parse().ok()).unwrap_or_default();
    let unit = match memory.attribute("unit") {
        Some("MiB") => 1024 * 1024,
        Some("GiB") => 1024 * 1024 * 1024,
        Some("b" | "bytes") => 1,
        _ => 1024,
    };
    let sources = |of: &str, key: &str| -> Vec<String> {
        let all = root.descendants().filter(|node| node.has_tag_name(of));
        let sources = all.filter_map(|node| node.children().find(|child| child.has_tag_name("source")));
        sources.filter_map(|source| source.attribute(key)).map(str::to_owned).collect()
    };
    let os = root.children().find(|child| child.has_tag_name("os"));
    let metadata = root.children().find(|child| child.has_tag_name("metadata"));
    let elements = metadata.into_iter().flat_map(|node| node.children().filter(roxmltree::Node::is_element));
    Ok(Definition {
        name,
        uuid: child(root, "uuid"),
        kind: kind.to_owned(),
        memory: amount * unit,
        efi: os.is_some_and(|os| os.attribute("firmware") == Some("efi")),
        agent: root.descendants().any(|node| node.attribute("name") == Some("org.qemu.guest_agent.0")),
        files: sources("disk", "file"),
        bridges: sources("interface", "bridge"),
        metadata: elements
            .map(|node| (node.tag_name().namespace().unwrap_or_default().to_owned(), undeclared(node)))
            .collect(),
    })
}

/// As libvirt answers an element: without prefix and declaration.
pub fn undeclared(node: roxmltree::Node<'_, '_>) -> String {
    let name = node.tag_name().name();
    let attributes: String =
        node.attributes().map(|it| format!(" {}=\"{}\"", it.name(), escape(it.value()))).collect();
    let inner: String =
        node.children()
            .map(|child| {
                if child.is_element() { undeclared(child) } else { escape(child.text().unwrap_or_default()) }
            })
            .collect();
    if inner.is_empty() {
        format!("<{name}{attributes}/>")
    } else {
        format!("<{name}{attributes}>{inner}</{name}>")
    }
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
