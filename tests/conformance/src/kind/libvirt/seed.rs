//! What cloud-init would find in a seed: a file of the Joliet tree of an ISO 9660 image.

const SECTOR: usize = 2048;

/// A file in the root; none where the image has none, or is no such image.
pub fn file(image: &[u8], name: &str) -> Option<Vec<u8>> {
    let wanted: Vec<u8> = name.encode_utf16().flat_map(u16::to_be_bytes).collect();
    // Descriptors begin at sector 16; Joliet's has the kind 2.
    let descriptors = image.chunks(SECTOR).skip(16).take_while(|sector| sector.get(1..6) == Some(b"CD001"));
    let joliet = descriptors.into_iter().find(|sector| sector.first() == Some(&2))?;
    let (at, length) = extent(joliet.get(156..)?)?;
    let mut folder = image.get(at..at.checked_add(length)?)?;
    while let Some(size) = folder.first().map(|size| usize::from(*size)).filter(|size| *size > 0) {
        let record = folder.get(..size)?;
        let named = record.get(33..33 + usize::from(*record.get(32)?))?;
        if named == wanted {
            let (at, length) = extent(record)?;
            return image.get(at..at.checked_add(length)?).map(<[u8]>::to_vec);
        }
        folder = folder.get(size..)?;
    }
    None
}

/// Where a record's bytes are, and how many.
fn extent(record: &[u8]) -> Option<(usize, usize)> {
    let number = |from: usize| -> Option<usize> {
        let bytes: [u8; 4] = record.get(from..from + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    Some((number(2)?.checked_mul(SECTOR)?, number(10)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_image_holds_no_file() {
        for image in [&[][..], &[0; 10], &[0; 40 * SECTOR]] {
            assert_eq!(file(image, "user-data"), None);
        }
    }
}
