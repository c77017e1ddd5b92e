//! Whom a call is about: the handles that libvirt gives out.
//!
//! They are plain values. libvirt finds a domain, pool or network again by its UUID and a volume by its key,
//! so a handle outlives the connection it came from; what it names may be gone meanwhile.

use std::{fmt, str::FromStr};

use crate::xdr::{Decode, DecodeError, Decoder, Encode, EncodeError, Encoder, record};

/// A UUID, as its sixteen bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// A text is no UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a UUID has 32 hexadecimal digits, with or without hyphens between them")]
pub struct InvalidUuid;

impl FromStr for Uuid {
    type Err = InvalidUuid;

    fn from_str(text: &str) -> Result<Self, InvalidUuid> {
        let mut bytes = [0; 16];
        let mut digits = text.chars().filter(|&char| char != '-');
        let mut digit = || digits.next().and_then(|char| char.to_digit(16)).ok_or(InvalidUuid);
        for byte in &mut bytes {
            *byte = u8::try_from(digit()? * 16 + digit()?).map_err(|_| InvalidUuid)?;
        }
        if digits.next().is_some() { Err(InvalidUuid) } else { Ok(Self(bytes)) }
    }
}

impl Encode for Uuid {
    fn encode(&self, to: &mut Encoder) -> Result<(), EncodeError> {
        to.raw(&self.0);
        Ok(())
    }
}

impl Decode for Uuid {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let bytes = from.raw(16)?;
        bytes.try_into().map(Self).map_err(|_| DecodeError::Short { missing: 16 })
    }
}

/// A domain: a virtual machine, running or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// What libvirt goes by.
    pub uuid: Uuid,
    /// A number while it runs.
    pub id: Option<u32>,
}

impl Encode for Domain {
    fn encode(&self, to: &mut Encoder) -> Result<(), EncodeError> {
        let id = self.id.and_then(|id| i32::try_from(id).ok()).unwrap_or(-1);
        (&self.name, self.uuid, id).encode(to)
    }
}

impl Decode for Domain {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (name, uuid, id) = <(String, Uuid, i32)>::decode(from)?;
        Ok(Self { name, uuid, id: u32::try_from(id).ok() })
    }
}

record! {
    /// A storage pool.
    pub struct StoragePool {
        /// Its name.
        pub name: String,
        /// What libvirt goes by.
        pub uuid: Uuid,
    }
}

record! {
    /// A volume in a pool.
    pub struct StorageVol {
        /// The pool's name.
        pub pool: String,
        /// Its name in the pool.
        pub name: String,
        /// Unique at the host; in a pool of files it is the path.
        pub key: String,
    }
}

record! {
    /// A network that libvirt keeps.
    pub struct Network {
        /// Its name.
        pub name: String,
        /// What libvirt goes by.
        pub uuid: Uuid,
    }
}

/// A list, and its length once more, as libvirt answers it.
#[derive(Debug)]
pub(crate) struct Listed<T, const MAX: usize>(pub Vec<T>);

impl<T: Decode, const MAX: usize> Decode for Listed<T, MAX> {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let items = from.list(MAX)?;
        u32::decode(from)?;
        Ok(Self(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "512b8c35-0d1c-4f2a-9e77-00c0ffee0001";

    #[test]
    fn a_uuid_is_read_and_printed_alike() {
        let uuid: Uuid = TEXT.parse().unwrap();
        assert_eq!(uuid.to_string(), TEXT);
        assert_eq!(TEXT.replace('-', "").parse(), Ok(uuid));
        for wrong in ["", "512b8c35", &format!("{TEXT}0"), &TEXT.replace('5', "g")] {
            assert_eq!(wrong.parse::<Uuid>(), Err(InvalidUuid), "{wrong}");
        }
    }

    #[test]
    fn a_domain_that_does_not_run_has_no_id() {
        let mut to = Encoder::new();
        let domain = Domain { name: "a".into(), uuid: Uuid([7; 16]), id: None };
        domain.encode(&mut to).unwrap();
        let bytes = to.finish();
        assert!(bytes.ends_with(&(-1_i32).to_be_bytes()));
        assert_eq!(Decoder::whole::<Domain>(&bytes).unwrap(), domain);
    }
}
