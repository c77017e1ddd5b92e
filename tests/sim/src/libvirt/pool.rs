//! Pools and their volumes.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use super::answers::{self, Answer};

/// virStoragePoolState.
pub const INACTIVE: i32 = 0;
pub const RUNNING: i32 = 2;

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// As a guest sees it.
    pub capacity: u64,
    /// What it takes.
    pub allocation: u64,
    /// `qcow2`, `raw`.
    pub format: String,
    /// Path and format.
    pub backing: Option<(String, String)>,
    /// As far as somebody wrote it through libvirt.
    pub data: Arc<Vec<u8>>,
    /// Of what it was filled with from a URL, once it was whole.
    pub sha256: Option<String>,
}

/// A pool.
#[derive(Clone, Debug)]
pub struct Pool {
    pub state: i32,
    pub capacity: u64,
    pub folder: String,
    /// Whether nothing more goes in.
    pub full: bool,
    pub volumes: BTreeMap<String, Volume>,
}

impl Pool {
    pub fn path(&self, volume: &str) -> String {
        format!("{}/{volume}", self.folder)
    }

    pub fn allocated(&self) -> u64 {
        self.volumes.values().map(|volume| volume.allocation).sum()
    }

    pub fn available(&self) -> u64 {
        if self.full { 0 } else { self.capacity.saturating_sub(self.allocated()) }
    }

    pub fn has_file(&self, path: &str) -> bool {
        self.volumes.keys().any(|name| self.path(name) == path)
    }

    /// The document.
    pub fn xml(&self, name: &str) -> Answer<String> {
        let volume = self.volumes.get(name).ok_or_else(|| answers::no_volume(name))?;
        let path = self.path(name);
        let mut xml = format!(
            "<volume type='file'>\n  <name>{name}</name>\n  <key>{path}</key>\n  <capacity unit='bytes'>{}</capacity>\n  \
             <allocation unit='bytes'>{}</allocation>\n  <target>\n    <path>{path}</path>\n    <format type='{}'/>\n  \
             </target>\n",
            volume.capacity, volume.allocation, volume.format
        );
        if let Some((backing, format)) = &volume.backing {
            // Writing to a String can't fail.
            let _ = write!(
                xml,
                "  <backingStore>\n    <path>{backing}</path>\n    <format type='{format}'/>\n  </backingStore>\n"
            );
        }
        xml.push_str("</volume>\n");
        Ok(xml)
    }

    /// By its document.
    pub fn create(&mut self, xml: &str, file_exists: impl Fn(&str) -> bool) -> Answer<()> {
        let document = roxmltree::Document::parse(xml).map_err(|_| answers::volume_xml_broken())?;
        let root = document.root_element();
        let text = |path: &[&str]| {
            let found =
                path.iter().try_fold(root, |at, name| at.children().find(|child| child.has_tag_name(*name)));
            found.and_then(|found| found.text()).map(str::trim)
        };
        let attribute = |path: &[&str], key: &str| {
            let found =
                path.iter().try_fold(root, |at, name| at.children().find(|child| child.has_tag_name(*name)));
            found.and_then(|found| found.attribute(key)).map(str::to_owned)
        };
        let name =
            text(&["name"]).filter(|name| !name.is_empty()).ok_or_else(answers::volume_without_name)?;
        let format = attribute(&["target", "format"], "type").unwrap_or_else(|| "raw".to_owned());
        if !["raw", "qcow2", "iso"].contains(&format.as_str()) {
            return Err(answers::volume_format(&format));
        }
        if self.volumes.contains_key(name) {
            return Err(answers::volume_exists(name));
        }
        let backing = text(&["backingStore", "path"]).filter(|path| !path.is_empty()).map(|path| {
            let format = attribute(&["backingStore", "format"], "type").unwrap_or_else(|| "raw".to_owned());
            (path.to_owned(), format)
        });
        if let Some((path, _)) = backing.as_ref().filter(|(path, _)| !file_exists(path)) {
            return Err(answers::no_backing(path));
        }
        let capacity = text(&["capacity"]).and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        let allocation = if format == "raw" { capacity } else { 196_608 };
        let volume = Volume { capacity, allocation, format, backing, ..Volume::default() };
        self.volumes.insert(name.to_owned(), volume);
        Ok(())
    }
}
