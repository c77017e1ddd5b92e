//! Base images: one volume for each image, entry and host, which overlays back onto.
//!
//! A second volume, the marker, is written last and says that the first is whole: its digest and whence it came. A
//! base without a marker is incomplete. One that anything backs onto is never removed and never replaced: libvirt
//! would unlink it under running machines without complaint.

use provider_sdk::{
    Error,
    libvirt::code,
    reason,
    transfer::{Fill, TransferFailureKind, Transferred},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    Host,
    config::Image,
    site::Site,
    volume::{self, Format, Seen},
};

/// So that one that stands there can be written over, whatever it says.
const MARKER_BYTES: usize = 512;

/// What the marker says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whole {
    pub sha256: String,
    /// Of the URL: it may bear a token.
    url: String,
}

/// An image at a host.
pub struct Base<'a, 'h, H> {
    pub host: &'h H,
    pub site: &'a Site<'h, H>,
    pub pool: &'a str,
    pub image: &'a Image,
    /// The base's name, without its format.
    pub name: String,
}

/// What the marker says of the base.
pub enum Said {
    Nothing,
    Whole,
    /// It was filled with something else than the entry says now.
    Other(Whole),
}

impl<'a, 'h, H: Host> Base<'a, 'h, H> {
    pub fn new(host: &'h H, site: &'a Site<'h, H>, pool: &'a str, image: &'a Image) -> Self {
        let name = format!("{}{}", volume::images(&host.installation(), &host.entry()), image.key);
        Self { host, site, pool, image, name }
    }

    /// The volume.
    pub fn volume(&self) -> String {
        volume::base(&self.name, self.image.format)
    }

    fn marker(&self) -> String {
        volume::marker(&self.name)
    }

    /// What overlays are told of it.
    pub fn format(&self) -> Format {
        self.image.format
    }

    /// What the marker says.
    pub fn said(&self) -> Result<Said, Error> {
        let marker = self.marker();
        let most = u32::try_from(MARKER_BYTES).unwrap_or_default();
        let data = match self.site.connection().volume_download(self.pool, &marker, most) {
            Ok(data) => data,
            Err(failure) if failure.is(code::NO_STORAGE_VOL) => return Ok(Said::Nothing),
            Err(failure) => return Err(self.site.asked(format!("read the marker {marker}")).error(&failure)),
        };
        let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
        let Ok(whole) = serde_json::from_slice::<Whole>(text) else { return Ok(Said::Nothing) };
        let same = match &self.image.sha256 {
            Some(wanted) => *wanted == whole.sha256,
            None => whole.url == hash(&self.image.url),
        };
        Ok(if same { Said::Whole } else { Said::Other(whole) })
    }

    /// The base itself; none where there is none.
    pub fn seen(&self) -> Result<Option<Seen>, Error> {
        let volume = self.volume();
        let asked = || self.site.asked(format!("look at the base image {volume}"));
        match self.site.connection().volume_xml(self.pool, &volume) {
            Ok(xml) => volume::read(&xml).map(Some).ok_or_else(|| asked().garbled()),
            Err(failure) if failure.is(code::NO_STORAGE_VOL) => Ok(None),
            Err(failure) => Err(asked().error(&failure)),
        }
    }

    /// How far the transfer is, if one is known. One that found something in its way is none.
    pub fn status(&self) -> Result<Option<Transferred>, Error> {
        match self.host.status(self.site.name(), self.pool, &self.volume()) {
            Ok(progress) => Ok(progress),
            Err(failure) if failure.kind == TransferFailureKind::Exists => Ok(None),
            Err(failure) => Err(self.site.asked(self.download()).transfer(&failure)),
        }
    }

    /// How large the image is, as far as its server says it.
    pub fn size(&self) -> Result<u64, Error> {
        let offer = self.host.probe(&self.image.url);
        let offer = offer.map_err(|failure| self.site.asked(self.download()).transfer(&failure))?;
        Ok(offer.size.unwrap_or_default())
    }

    /// Starts the transfer; none where an incomplete base stands in its way.
    pub fn fill(&self) -> Result<Option<Transferred>, Error> {
        let fill = Fill {
            host: self.site.name().to_owned(),
            pool: self.pool.to_owned(),
            volume: self.volume(),
            url: self.image.url.clone(),
            format: self.image.format.as_str(),
            sha256: self.image.sha256.clone(),
        };
        match self.host.ensure(&fill) {
            Ok(progress) => Ok(Some(progress)),
            Err(failure) if failure.kind == TransferFailureKind::Exists => Ok(None),
            Err(failure) => Err(self.site.asked(self.download()).transfer(&failure)),
        }
    }

    /// Says that the base is whole.
    pub fn mark_whole(&self, sha256: &str) -> Result<(), Error> {
        let marker = self.marker();
        let what = || format!("write the marker {marker}");
        let whole = Whole { sha256: sha256.to_owned(), url: hash(&self.image.url) };
        let mut data = serde_json::to_vec(&whole).unwrap_or_default();
        data.resize(MARKER_BYTES, 0);
        let xml = volume::raw_xml(&marker, MARKER_BYTES as u64);
        match self.site.connection().volume_create(self.pool, &xml) {
            Ok(()) => {}
            Err(failure) if failure.is(code::STORAGE_VOL_EXIST) => {}
            Err(failure) => return Err(self.site.asked(what()).error(&failure)),
        }
        self.site.call(what, |connection| connection.volume_upload(self.pool, &marker, &data))
    }

    /// Removes what does not count any more: the marker first, so that a base is never told whole that is not.
    pub fn remove(&self) -> Result<(), Error> {
        let _held = hold(self.host, self.site.name(), &self.name)?;
        if let Some(user) = user_of(self.site, self.pool, &self.name)? {
            return Err(Error::permanent(
                "image-in-use",
                format!(
                    "host {}: the base image {} is incomplete, or its marker {} is gone, and {user} backs onto it; \
                     restore the marker, or remove the machines that use it",
                    self.site.name(),
                    self.volume(),
                    self.marker()
                ),
            ));
        }
        for volume in [self.marker(), self.volume()] {
            delete(self.site, self.pool, &volume)?;
        }
        Ok(())
    }

    /// The entry says another image than the one that stands there.
    pub fn replace(&self, was: &Whole) -> Result<(), Error> {
        if let Some(user) = user_of(self.site, self.pool, &self.name)? {
            let wanted = match &self.image.sha256 {
                Some(wanted) => format!("sha256 {wanted}"),
                None => "another URL".to_owned(),
            };
            return Err(Error::permanent(
                "image-changed",
                format!(
                    "host {}: the base image {} has sha256 {} and {user} backs onto it, but the entry now says {wanted} \
                     for {}; give the new image a key of its own, or remove the machines that use the old one",
                    self.site.name(),
                    self.volume(),
                    was.sha256,
                    self.image.key
                ),
            ));
        }
        self.remove()
    }

    fn download(&self) -> String {
        format!("download {} as {}", self.image.key, self.volume())
    }
}

/// For people: `downloading debian-13: 41 %`.
pub fn words(image: &Image, progress: &Transferred) -> String {
    let far = match progress.total.filter(|total| *total > 0) {
        Some(total) => format!("{} %", (progress.bytes.min(total) * 100) / total),
        None => format!("{} MiB", progress.bytes / 1024 / 1024),
    };
    format!("downloading {}: {far}", image.key)
}

/// While a base gets an overlay, nobody removes it.
pub fn hold<'h, H: Host>(
    host: &'h H,
    place: &str,
    name: &str,
) -> Result<Box<dyn provider_sdk::Lock + 'h>, Error> {
    host.acquire(&format!("image/{place}/{name}"), 2_000).ok_or_else(|| {
        Error::transient(
            reason::BUSY,
            format!("host {place}: the base image {name} is worked on; tried again"),
        )
    })
}

/// Something that backs onto the base, or may: of a machine whose disk is gone nobody can say what it still reads.
pub fn user_of<H: Host>(site: &Site<'_, H>, pool: &str, name: &str) -> Result<Option<String>, Error> {
    let what = || format!("look what backs onto {name}");
    let volumes = site.call(what, |connection| connection.volumes(pool))?;
    let of_the_base = [volume::base(name, Format::Qcow2), volume::base(name, Format::Raw)];
    for volume in volumes.iter().filter(|volume| !volume.starts_with("proxy-base-")) {
        let xml = match site.connection().volume_xml(pool, volume) {
            Ok(xml) => xml,
            Err(failure) if failure.is(code::NO_STORAGE_VOL) => continue,
            Err(failure) => return Err(site.asked(what()).error(&failure)),
        };
        let Some(seen) = volume::read(&xml) else { return Err(site.asked(what()).garbled()) };
        let backing = seen.backing.as_deref().and_then(|path| path.rsplit('/').next());
        if backing.is_some_and(|backing| of_the_base.iter().any(|base| base == backing)) {
            return Ok(Some(volume.clone()));
        }
    }
    let installation = site.lender().installation();
    let domains = site.call(what, |connection| connection.domains())?;
    let is_blind = |name: &str| {
        let disk = volume::overlay(name);
        volume::machine_of(&disk, &installation).is_some() && !volumes.contains(&disk)
    };
    let blind = domains.into_iter().find(|domain| is_blind(&domain.name));
    Ok(blind.map(|domain| format!("perhaps {}, whose disk is gone,", domain.name)))
}

/// Removes a volume that may be gone.
pub fn delete<H: Host>(site: &Site<'_, H>, pool: &str, volume: &str) -> Result<(), Error> {
    match site.connection().volume_delete(pool, volume) {
        Ok(()) => Ok(()),
        Err(failure) if failure.is(code::NO_STORAGE_VOL) => Ok(()),
        Err(failure) => Err(site.asked(format!("delete the volume {volume}")).error(&failure)),
    }
}

fn hash(url: &str) -> String {
    Sha256::digest(url.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
