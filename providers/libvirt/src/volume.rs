//! Volumes: their names, and their documents as they are written and read.

use crate::xml;

const OVERLAY: &str = ".qcow2";
const SEED: &str = "-seed.iso";
const MARKER: &str = ".sha256";

/// A format of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Qcow2,
    Raw,
}

impl Format {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Qcow2 => "qcow2",
            Self::Raw => "raw",
        }
    }
}

/// The machine's disk.
pub fn overlay(name: &str) -> String {
    format!("{name}{OVERLAY}")
}

/// What cloud-init reads.
pub fn seed(name: &str) -> String {
    format!("{name}{SEED}")
}

/// The shared image.
pub fn base(image: &str, format: Format) -> String {
    format!("{image}.{}", format.as_str())
}

/// What says that the shared image is whole.
pub fn marker(image: &str) -> String {
    format!("{image}{MARKER}")
}

/// The machine that a volume belongs to by its name, in this installation.
pub fn machine_of<'a>(volume: &'a str, installation: &str) -> Option<(&'a str, &'static str)> {
    let (name, kind) = match volume.strip_suffix(SEED) {
        Some(name) => (name, "seed"),
        None => (volume.strip_suffix(OVERLAY)?, "volume"),
    };
    let (before, instance) = name.strip_prefix("proxy-")?.rsplit_once('-')?;
    let (slug, hash) = before.rsplit_once('-')?;
    let ours = hash == installation && !instance.is_empty() && slug != "base" && !slug.starts_with("base-");
    ours.then_some((name, kind))
}

/// The shared image of this installation and entry that a volume belongs to by its name.
pub fn image_of<'a>(volume: &'a str, images: &str) -> Option<&'a str> {
    let known = [".qcow2", ".raw", MARKER];
    let name = known.iter().find_map(|suffix| volume.strip_suffix(suffix))?;
    name.starts_with(images).then_some(name)
}

/// What all shared images of an entry begin with.
pub fn images(installation: &str, entry: &str) -> String {
    format!("proxy-base-{installation}-{entry}-")
}

/// What a volume's document says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub path: String,
    pub capacity: u64,
    pub format: String,
    pub backing: Option<String>,
}

/// Reads a document; none for what is none.
pub fn read(text: &str) -> Option<Seen> {
    let volume = xml::parse(text).filter(|volume| volume.name == "volume")?;
    Some(Seen {
        path: volume.text_at(&["target", "path"])?.to_owned(),
        capacity: volume.text_at(&["capacity"]).and_then(|bytes| bytes.parse().ok()).unwrap_or_default(),
        format: volume.at(&["target", "format"])?.attribute("type")?.to_owned(),
        backing: volume.text_at(&["backingStore", "path"]).filter(|path| !path.is_empty()).map(str::to_owned),
    })
}

/// A volume of its own bytes.
pub fn raw_xml(name: &str, bytes: u64) -> String {
    format!(
        "<volume><name>{}</name><capacity unit=\"bytes\">{bytes}</capacity><target><format type=\"raw\"/>\
         </target></volume>",
        xml::escape(name)
    )
}

/// A thin volume over another.
pub fn overlay_xml(name: &str, bytes: u64, backing: &str, format: &str) -> String {
    format!(
        "<volume><name>{}</name><capacity unit=\"bytes\">{bytes}</capacity><allocation unit=\"bytes\">0\
         </allocation><target><format type=\"qcow2\"/></target><backingStore><path>{}</path><format \
         type=\"{}\"/></backingStore></volume>",
        xml::escape(name),
        xml::escape(backing),
        xml::escape(format)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_tells_by_its_name_whose_it_is() {
        let name = "proxy-web-1-abcdef-0123456789";
        assert_eq!(machine_of(&overlay(name), "abcdef"), Some((name, "volume")));
        assert_eq!(machine_of(&seed(name), "abcdef"), Some((name, "seed")));
        assert_eq!(machine_of(&overlay(name), "zzzzzz"), None);
        assert_eq!(machine_of("proxy-base-abcdef-home-debian.qcow2", "abcdef"), None);
        assert_eq!(machine_of("debian.qcow2", "abcdef"), None);
        let images = images("abcdef", "home");
        assert_eq!(image_of("proxy-base-abcdef-home-d.sha256", &images), Some("proxy-base-abcdef-home-d"));
        assert_eq!(image_of("proxy-base-abcdef-away-d.qcow2", &images), None);
    }

    #[test]
    fn a_document_says_what_is_checked_before_an_overlay_is_used() {
        let seen = read(
            "<volume type='file'><name>v</name><key>/p/v</key><capacity unit='bytes'>7</capacity><target>\
             <path>/p/v</path><format type='qcow2'/></target><backingStore><path>/p/b</path><format \
             type='raw'/></backingStore></volume>",
        );
        let expected = Seen {
            path: "/p/v".to_owned(),
            capacity: 7,
            format: "qcow2".to_owned(),
            backing: Some("/p/b".to_owned()),
        };
        assert_eq!(seen, Some(expected));
        assert_eq!(read("<html/>"), None);
    }
}
