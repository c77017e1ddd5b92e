//! Reading the few documents that libvirt answers with, and escaping what is written.
//!
//! Only what libvirt writes is read: elements, attributes, text, comments. A document with a DTD, or deeper or
//! longer than any of these, is none. So nothing in a hostile answer makes the reader loop or grow.

/// Deeper than any document of libvirt's.
const DEEPEST: usize = 64;
/// Longer than any that is read here.
const LONGEST: usize = 2 * 1024 * 1024;

/// An element. Names are without their prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    pub name: String,
    pub attributes: Vec<(String, String)>,
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    /// The first child of a name.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// By names, one below the other.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |at, name| at.child(name))
    }

    /// The text there, without blanks around it.
    pub fn text_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path).map(|found| found.text.trim())
    }

    /// An attribute's value.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The document's element; none for what is no such document.
pub fn parse(text: &str) -> Option<Element> {
    if text.len() > LONGEST {
        return None;
    }
    let mut rest = text;
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at_checked(at)?;
        match open.last_mut() {
            Some(element) => element.text.push_str(&unescape(before)?),
            None if before.trim().is_empty() => {}
            None => return None,
        }
        if let Some(after) = from.strip_prefix("<!--") {
            rest = after.split_once("-->")?.1;
        } else if let Some(after) = from.strip_prefix("<?") {
            rest = after.split_once("?>")?.1;
        } else if from.starts_with("<!") {
            return None;
        } else if let Some(after) = from.strip_prefix("</") {
            let (name, after) = after.split_once('>')?;
            let element = open.pop().filter(|element| element.name == local(name.trim()))?;
            close(element, &mut open, &mut root)?;
            rest = after;
        } else {
            let (element, ended, after) = start(from.strip_prefix('<')?)?;
            if ended {
                close(element, &mut open, &mut root)?;
            } else {
                open.push(element);
            }
            rest = after;
        }
        if open.len() > DEEPEST {
            return None;
        }
    }
    if open.is_empty() && rest.trim().is_empty() { root } else { None }
}

fn close(element: Element, open: &mut [Element], root: &mut Option<Element>) -> Option<()> {
    match open.last_mut() {
        Some(parent) => parent.children.push(element),
        None if root.is_none() => *root = Some(element),
        None => return None,
    }
    Some(())
}

/// From behind `<`: the element, whether it ended with its tag, and what follows.
fn start(text: &str) -> Option<(Element, bool, &str)> {
    let name_ends = text.find(|c: char| c.is_whitespace() || c == '>' || c == '/')?;
    let (name, mut rest) = text.split_at_checked(name_ends)?;
    if name.is_empty() {
        return None;
    }
    let mut element = Element { name: local(name).to_owned(), ..Element::default() };
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix("/>") {
            return Some((element, true, after));
        }
        if let Some(after) = rest.strip_prefix('>') {
            return Some((element, false, after));
        }
        let (key, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| *c == '"' || *c == '\'')?;
        let (value, after) = after.get(1..)?.split_once(quote)?;
        let key = key.trim();
        // A declaration of a namespace is no attribute.
        if key != "xmlns" && !key.starts_with("xmlns:") {
            element.attributes.push((local(key).to_owned(), unescape(value)?));
        }
        rest = after;
    }
}

fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let (entity, after) = after.split_once(';')?;
        plain.push(match entity {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" => '"',
            "apos" => '\'',
            number => {
                let number = number.strip_prefix('#')?;
                let code = match number.strip_prefix('x') {
                    Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                    None => number.parse().ok()?,
                };
                char::from_u32(code)?
            }
        });
        rest = after;
    }
    plain.push_str(rest);
    Some(plain)
}

/// As text or as an attribute's value. What no document may hold is left out.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\t' | '\n' => escaped.push(c),
            c if c.is_control() => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_of_libvirts_is_read() {
        let volume = parse(
            "<?xml version='1.0'?>\n<volume type='file'>\n  <name>v&amp;1</name><!-- x -->\n  <target>\n    \
             <path>/p/v</path>\n    <format type='qcow2'/>\n  </target>\n</volume>\n",
        )
        .unwrap();
        assert_eq!(volume.text_at(&["name"]), Some("v&1"));
        assert_eq!(volume.text_at(&["target", "path"]), Some("/p/v"));
        assert_eq!(
            volume.at(&["target", "format"]).and_then(|format| format.attribute("type")),
            Some("qcow2")
        );
    }

    #[test]
    fn prefixes_are_passed_over() {
        let element = parse("<m:o xmlns:m=\"urn:x\" m:id=\"1\"><m:uid>&#x75;&#49;</m:uid></m:o>").unwrap();
        assert_eq!((element.name.as_str(), element.attribute("id")), ("o", Some("1")));
        assert_eq!(element.text_at(&["uid"]), Some("u1"));
    }

    #[test]
    fn what_is_no_document_is_none() {
        let bomb = "<!DOCTYPE a [<!ENTITY x 'xxxxxxxx'>]><a>&x;</a>";
        let deep = "<a>".repeat(100) + &"</a>".repeat(100);
        for text in ["", "text", "<a>", "<a></b>", "<a/><b/>", "<a b>", "<a>&x;</a>", "<a x='1>", bomb, &deep]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_escaped_is_read_back() {
        let text = "<&>\"' \u{e4} \u{1f980}";
        assert_eq!(parse(&format!("<a b=\"{0}\">{0}</a>", escape(text))).unwrap().text, text);
    }
}
