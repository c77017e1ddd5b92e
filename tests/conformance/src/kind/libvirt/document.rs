//! What a look behind the provider's back reads in libvirt's documents.

use roxmltree::{Document, Node};

/// Beside the pairs of a mark.
const CREATED_AT: &str = "createdAt";

/// An element of a domain's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// libvirt's prefix for it.
    pub key: String,
    /// Whose it is.
    pub namespace: String,
    /// Its local name.
    name: String,
    /// Its children: name and text.
    children: Vec<(String, String)>,
}

impl Element {
    /// The pairs of a mark.
    pub fn mark(&self) -> impl Iterator<Item = &(String, String)> {
        self.children.iter().filter(|(name, _)| name != CREATED_AT)
    }

    /// With one text instead of another, wherever it stands in a value.
    pub fn edited(&self, from: &str, to: &str) -> String {
        let child = |(name, text): &(String, String)| {
            let text = text.replace(from, to).replace('&', "&amp;").replace('<', "&lt;");
            format!("<{name}>{text}</{name}>")
        };
        let children: String = self.children.iter().map(child).collect();
        format!("<{name}>{children}</{name}>", name = self.name)
    }
}

/// All elements of a domain's metadata.
pub fn metadata(domain: &str) -> Vec<Element> {
    let Ok(document) = Document::parse(domain) else { return Vec::new() };
    let of_metadata = |node: &Node<'_, '_>| node.parent().is_some_and(|above| above.has_tag_name("metadata"));
    let elements = document.descendants().filter(|node| node.is_element() && of_metadata(node));
    elements.filter_map(element).collect()
}

fn element(node: Node<'_, '_>) -> Option<Element> {
    let namespace = node.tag_name().namespace()?;
    let child = |child: Node<'_, '_>| {
        (child.tag_name().name().to_owned(), child.text().unwrap_or_default().to_owned())
    };
    Some(Element {
        // As libvirt takes it back: any will do where it is the default one.
        key: node.lookup_prefix(namespace).unwrap_or("mark").to_owned(),
        namespace: namespace.to_owned(),
        name: node.tag_name().name().to_owned(),
        children: node.children().filter(Node::is_element).map(child).collect(),
    })
}

/// What of a volume nothing but a change of it changes.
pub fn volume(volume: &str) -> String {
    let Ok(document) = Document::parse(volume) else { return volume.to_owned() };
    let kept = |node: &Node<'_, '_>| ["capacity", "format", "path"].contains(&node.tag_name().name());
    let shown = |node: Node<'_, '_>| match node.attribute("type") {
        Some(format) => format!("{format} "),
        None => format!("{} ", node.text().unwrap_or_default().trim()),
    };
    document.descendants().filter(kept).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: &str = "<domain><name>a</name><metadata><egress:instance xmlns:egress='urn:e'><egress:uid>u-1</egress:uid>\
        <egress:createdAt>then</egress:createdAt></egress:instance></metadata></domain>";

    #[test]
    fn a_mark_is_read_and_written_back_with_an_edit() {
        let [element] = &metadata(DOMAIN)[..] else { panic!("{:?}", metadata(DOMAIN)) };
        assert_eq!((element.key.as_str(), element.namespace.as_str()), ("egress", "urn:e"));
        assert_eq!(element.mark().collect::<Vec<_>>(), [&("uid".to_owned(), "u-1".to_owned())]);
        let edited = element.edited("u-1", "u<2");
        assert_eq!(edited, "<instance><uid>u&lt;2</uid><createdAt>then</createdAt></instance>");
    }

    #[test]
    fn a_volume_is_told_by_what_its_owner_chose() {
        let volume = |allocation| {
            format!(
                "<volume><capacity unit='bytes'>7</capacity><allocation>{allocation}</allocation><target><path>/p/v</path>\
                 <format type='qcow2'/></target><backingStore><path>/p/b</path></backingStore></volume>"
            )
        };
        assert_eq!(super::volume(&volume(1)), super::volume(&volume(2)));
        assert_eq!(super::volume(&volume(1)), "7 /p/v qcow2 /p/b ");
    }
}
