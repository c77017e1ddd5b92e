//! XML by allow-list: what is not known to be harmless is refused, by its name.
//!
//! A document type is refused before anything else, and entities with it. So is all that libvirt's parser and this one
//! could read in two ways: a declaration, which may name an encoding, and comments, which split a text.

use roxmltree::{Document, Node, ParsingOptions};

/// A machine's definition has a few.
const MOST_BYTES: usize = 256 * 1024;
const MOST_NODES: u32 = 10_000;
const DEEPEST: usize = 16;

/// One element that may be there, and its attributes.
pub(super) type Allowed = (&'static str, &'static [&'static str]);

/// What an element is found to be.
pub(super) struct Element<'a, 'input> {
    /// From the top: `domain/devices/disk`.
    pub(super) path: &'a str,
    pub(super) node: Node<'a, 'input>,
}

impl<'a> Element<'a, '_> {
    pub(super) fn attribute(&self, name: &str) -> Option<&'a str> {
        self.node.attribute(name)
    }

    /// All of its text.
    pub(super) fn text(&self) -> String {
        self.node.children().filter(Node::is_text).filter_map(|node| node.text()).collect()
    }
}

/// Reads a document and refuses what no rule knows, or what `check` refuses. Below `free` everything may be.
pub(super) fn read(
    xml: &str,
    allowed: &[Allowed],
    free: Option<&str>,
    mut check: impl FnMut(&Element<'_, '_>) -> Result<(), String>,
) -> Result<(), String> {
    let document = parse(xml)?;
    let mut stack = vec![(document.root_element(), String::new())];
    while let Some((node, above)) = stack.pop() {
        let name = node.tag_name();
        let path = if above.is_empty() { name.name().to_owned() } else { format!("{above}/{}", name.name()) };
        if name.namespace().is_some() {
            return Err(format!("the element {path} of another namespace is not allowed"));
        }
        let Some((_, attributes)) = allowed.iter().find(|(known, _)| *known == path) else {
            return Err(format!("the element {path} is not allowed"));
        };
        for attribute in node.attributes() {
            if attribute.namespace().is_some() || !attributes.contains(&attribute.name()) {
                return Err(format!(
                    "the attribute {} of the element {path} is not allowed",
                    attribute.name()
                ));
            }
        }
        let is_free = free == Some(path.as_str());
        if !is_free && node.children().any(|child| child.is_comment() || child.is_pi()) {
            return Err(format!("a comment in the element {path} is not allowed"));
        }
        check(&Element { path: &path, node })?;
        if is_free {
            continue;
        }
        stack.extend(node.children().filter(Node::is_element).map(|child| (child, path.clone())));
    }
    Ok(())
}

/// One element, whatever it holds.
pub(super) fn element(xml: &str) -> Result<(), String> {
    parse(xml).map(|_| ())
}

fn parse(xml: &str) -> Result<Document<'_>, String> {
    if xml.len() > MOST_BYTES {
        return Err(format!("it has {} bytes, and {MOST_BYTES} are allowed", xml.len()));
    }
    // libvirt's parser may go by the encoding that a declaration names, in which text can become elements.
    if xml.contains("<?") {
        return Err("a declaration or processing instruction (<?) is not allowed".to_owned());
    }
    if is_deep(xml) {
        return Err(format!("its elements stand within each other deeper than {DEEPEST}"));
    }
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    Document::parse_with_options(xml, options).map_err(|error| match error {
        roxmltree::Error::DtdDetected => "a document type (DTD) is not allowed".to_owned(),
        roxmltree::Error::NodesLimitReached => format!("more than {MOST_NODES} nodes are not allowed"),
        // Its words quote no more than names.
        error => format!("it is no XML: {error}"),
    })
}

/// Before it is parsed, which takes the stack. Tags are told roughly: the answer may be yes for what is not.
fn is_deep(xml: &str) -> bool {
    let mut depth = 0_usize;
    for tag in xml.split('<').skip(1) {
        if tag.starts_with('/') {
            depth = depth.saturating_sub(1);
        } else if !tag.starts_with(['!', '?']) && !tag.split('>').next().is_some_and(|tag| tag.ends_with('/'))
        {
            depth += 1;
        }
        if depth > DEEPEST {
            return true;
        }
    }
    false
}
