//! A component's bytes, fetched and unpacked: the first two stages.
//!
//! What is unpacked is bounded while it streams: a few kilobytes can claim to hold terabytes.

use std::{
    fmt,
    io::{self, Read},
    str::FromStr,
    sync::Arc,
};

use sha2::{Digest as _, Sha256};

use crate::refusal::{Refusal, Stage};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// A frame may ask for a window this large (2^27): what zstd itself writes at its highest usual level.
const ZSTD_WINDOW_LOG: u32 = 27;

/// A sha256 of the unpacked component; printed as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A digest that is not written as one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("digest {0:?} must be `sha256:` and 64 hexadecimal digits")]
pub struct InvalidDigest(String);

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let mut digest = [0; 32];
        text.strip_prefix("sha256:")
            .and_then(|digits| hex::decode_to_slice(digits, &mut digest).ok())
            .map(|()| Self(digest))
            .ok_or_else(|| InvalidDigest(text.to_owned()))
    }
}

/// Unpacked bytes that are claimed to be a component, with their digest.
#[derive(Clone)]
pub struct Module {
    bytes: Arc<[u8]>,
    digest: Digest,
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("digest", &self.digest).field("bytes", &self.bytes.len()).finish()
    }
}

impl Module {
    /// Unpacks plain, gzip or zstd bytes (told apart by their first bytes) to at most `max_bytes`.
    pub fn unpack(raw: &[u8], max_bytes: u64) -> Result<Self, Refusal> {
        let bytes = if raw.starts_with(GZIP) {
            // Several members in a row are one stream, as gzip itself has it.
            read(flate2::read::MultiGzDecoder::new(raw), "gzip", max_bytes)?
        } else if raw.starts_with(ZSTD) {
            let decoder = zstd::stream::read::Decoder::with_buffer(raw).and_then(|mut decoder| {
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Ok(decoder)
            });
            read(decoder.map_err(|error| broken("zstd", &error))?, "zstd", max_bytes)?
        } else {
            read(raw, "plain", max_bytes)?
        };
        if bytes.is_empty() {
            return Err(Refusal::new(
                Stage::Fetch,
                "Empty",
                "the module is empty; put a component there, as `epo provider build` writes it",
            ));
        }
        Ok(Self { digest: Digest::of(&bytes), bytes: bytes.into() })
    }

    /// The unpacked bytes.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// Of the unpacked bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

fn read(stream: impl Read, format: &str, max_bytes: u64) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    // One more than allowed tells "as long as the limit" from "longer".
    let read = stream.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| broken(format, &error))?;
    if bytes.len() as u64 > max_bytes {
        return Err(Refusal::new(
            Stage::Fetch,
            "TooLarge",
            format!(
                "the {format} module unpacks to more than {max_bytes} bytes, the limit for a component; make \
                 it smaller (strip it, wasm-opt -Oz) or raise the operator's limit on module bytes"
            ),
        ));
    }
    Ok(bytes)
}

fn broken(format: &str, error: &io::Error) -> Refusal {
    Refusal::new(
        Stage::Fetch,
        "BrokenStream",
        format!("the module begins as {format} and does not unpack: {error}; write it again, whole"),
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const LIMIT: u64 = 1000;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::stream::encode_all(bytes, 19).unwrap()
    }

    #[test]
    fn a_module_is_the_same_however_it_is_packed() {
        let plain = Module::unpack(b"component", LIMIT).unwrap();
        assert_eq!(&plain.bytes()[..], b"component");
        for packed in [gzip(b"component"), zstd(b"component")] {
            assert_eq!(Module::unpack(&packed, LIMIT).unwrap().digest(), plain.digest());
        }
    }

    #[test]
    fn a_bomb_is_refused_while_it_unpacks_with_the_limit_and_the_way_out() {
        let fits = vec![0; 1000];
        let bomb = vec![0; 100_000_000];
        for pack in [gzip, zstd] {
            assert!(Module::unpack(&pack(&fits), LIMIT).is_ok());
            let refusal = Module::unpack(&pack(&bomb), LIMIT).unwrap_err();
            assert_eq!((refusal.stage, refusal.reason), (Stage::Fetch, "TooLarge"));
            assert!(refusal.message.contains("1000") && refusal.message.contains("wasm-opt"), "{refusal}");
        }
        assert_eq!(Module::unpack(&[b'x'; 1001], LIMIT).unwrap_err().reason, "TooLarge");
    }

    #[test]
    fn a_broken_stream_is_told_from_a_broken_component() {
        for packed in [gzip(b"component"), zstd(b"component")] {
            let cut = packed.get(..packed.len() - 3).unwrap();
            let refusal = Module::unpack(cut, LIMIT).unwrap_err();
            assert_eq!((refusal.stage, refusal.reason), (Stage::Fetch, "BrokenStream"));
        }
    }

    #[test]
    fn nothing_is_refused_as_nothing() {
        for packed in [Vec::new(), gzip(b""), zstd(b"")] {
            assert_eq!(Module::unpack(&packed, LIMIT).unwrap_err().reason, "Empty");
        }
    }

    #[test]
    fn a_digest_reads_back_what_it_prints() {
        let digest = Digest::of(b"component");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        for bad in ["", "sha256:", "sha512:00", "sha256:xyz"] {
            assert!(bad.parse::<Digest>().unwrap_err().to_string().contains("64 hexadecimal digits"));
        }
    }
}
