//! An ISO 9660 image with Joliet, of a few small files: what cloud-init reads as NoCloud.
//!
//! `user-data` and `meta-data` are no legal names of plain ISO 9660, so they stand in Joliet's tree, which Linux
//! prefers; in the plain tree they are `USER_DAT.;1` and so on. Dates are fixed: the same files give the same bytes,
//! so that a seed that stands there can be compared with the one that is wanted.

const SECTOR: usize = 2048;
/// Sectors: 16 are left to systems, then three descriptors, four path tables, two folders; then files.
const PLAIN_TABLE: u32 = 19;
const JOLIET_TABLE: u32 = 21;
const PLAIN_ROOT: u32 = 23;
const JOLIET_ROOT: u32 = 24;
const FILES: u32 = 25;

/// A file: its name, its name in the plain tree, its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct File<'a> {
    pub name: &'a str,
    pub plain: &'a str,
    pub data: &'a [u8],
}

/// The image. A folder is one sector: a handful of files.
pub(super) fn image(volume: &str, files: &[File<'_>]) -> Vec<u8> {
    let mut at = FILES;
    let mut placed = Vec::new();
    for file in files {
        placed.push((file, at));
        at += sectors(file.data.len());
    }
    let total = at;
    let mut image = vec![0; 16 * SECTOR];
    image.extend(descriptor(volume, total, false));
    image.extend(descriptor(volume, total, true));
    let mut end = vec![255];
    end.extend(b"CD001\x01");
    image.extend(padded(end));
    for (table, root) in [(PLAIN_TABLE, PLAIN_ROOT), (JOLIET_TABLE, JOLIET_ROOT)] {
        debug_assert_eq!(image.len(), table as usize * SECTOR);
        image.extend(padded(path_table(&root.to_le_bytes(), &1_u16.to_le_bytes())));
        image.extend(padded(path_table(&root.to_be_bytes(), &1_u16.to_be_bytes())));
    }
    for joliet in [false, true] {
        let root = if joliet { JOLIET_ROOT } else { PLAIN_ROOT };
        let mut folder = record(&[0], root, SECTOR, true);
        folder.extend(record(&[1], root, SECTOR, true));
        // Readers expect names in order.
        let mut entries: Vec<(Vec<u8>, u32, usize)> = placed
            .iter()
            .map(|(file, at)| {
                let name = if joliet { wide(file.name) } else { file.plain.as_bytes().to_vec() };
                (name, *at, file.data.len())
            })
            .collect();
        entries.sort();
        entries.iter().for_each(|(name, at, length)| folder.extend(record(name, *at, *length, false)));
        image.extend(padded(folder));
    }
    for (file, _) in &placed {
        image.extend(padded(file.data.to_vec()));
    }
    image
}

fn sectors(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(SECTOR)).unwrap_or(u32::MAX)
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().div_ceil(SECTOR) * SECTOR, 0);
    bytes
}

/// UCS-2, big end first.
fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

/// Blanks behind, in the tree's own letters.
fn field(text: &str, length: usize, joliet: bool) -> Vec<u8> {
    let blank: &[u8] = if joliet { &[0, b' '] } else { b" " };
    let mut bytes = if joliet { wide(text) } else { text.to_ascii_uppercase().into_bytes() };
    bytes.truncate(length);
    while bytes.len() + blank.len() <= length {
        bytes.extend(blank);
    }
    bytes.resize(length, 0);
    bytes
}

fn both16(number: u16) -> Vec<u8> {
    [number.to_le_bytes(), number.to_be_bytes()].concat()
}

fn both32(number: u32) -> Vec<u8> {
    [number.to_le_bytes(), number.to_be_bytes()].concat()
}

fn descriptor(volume: &str, total: u32, joliet: bool) -> Vec<u8> {
    let (kind, table, root) =
        if joliet { (2, JOLIET_TABLE, JOLIET_ROOT) } else { (1, PLAIN_TABLE, PLAIN_ROOT) };
    let sector = u16::try_from(SECTOR).unwrap_or_default();
    let mut bytes = vec![kind];
    bytes.extend(b"CD001\x01\0");
    bytes.extend(field("", 32, joliet));
    // cloud-init looks for the label in either case.
    bytes.extend(if joliet { field(volume, 32, true) } else { lower(volume) });
    bytes.extend([0; 8]);
    bytes.extend(both32(total));
    let mut escapes = if joliet { b"%/E".to_vec() } else { Vec::new() };
    escapes.resize(32, 0);
    bytes.extend(escapes);
    bytes.extend(both16(1));
    bytes.extend(both16(1));
    bytes.extend(both16(sector));
    bytes.extend(both32(10));
    bytes.extend(table.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend((table + 1).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(record(&[0], root, SECTOR, true));
    // Set, publisher, preparer, application; then three files.
    for length in [128, 128, 128, 128, 37, 37, 37] {
        bytes.extend(field("", length, joliet));
    }
    for _ in 0..4 {
        bytes.extend([b'0'; 16]);
        bytes.push(0);
    }
    bytes.extend([1, 0]);
    padded(bytes)
}

/// The label as cloud-init's documents write it.
fn lower(volume: &str) -> Vec<u8> {
    let mut bytes = volume.as_bytes().to_vec();
    bytes.resize(32, b' ');
    bytes
}

/// Of a tree that is only a root.
fn path_table(root: &[u8; 4], parent: &[u8; 2]) -> Vec<u8> {
    let mut bytes = vec![1, 0];
    bytes.extend(root);
    bytes.extend(parent);
    bytes.extend([0, 0]);
    bytes
}

fn record(name: &[u8], at: u32, length: usize, folder: bool) -> Vec<u8> {
    let size = 33 + name.len() + (name.len() + 1) % 2;
    let mut bytes = vec![u8::try_from(size).unwrap_or_default(), 0];
    bytes.extend(both32(at));
    bytes.extend(both32(u32::try_from(length).unwrap_or(u32::MAX)));
    // 2020-01-01 00:00:00 UTC, always.
    bytes.extend([120, 1, 1, 0, 0, 0, 0]);
    bytes.extend([if folder { 2 } else { 0 }, 0, 0]);
    bytes.extend(both16(1));
    bytes.push(u8::try_from(name.len()).unwrap_or_default());
    bytes.extend(name);
    bytes.resize(size, 0);
    bytes
}

/// The files of an image that was made here; for whoever looks into a seed.
#[cfg(test)]
pub(super) fn read(image: &[u8]) -> std::collections::BTreeMap<String, Vec<u8>> {
    let mut files = std::collections::BTreeMap::new();
    let mut at = JOLIET_ROOT as usize * SECTOR;
    while image[at] > 0 {
        let record = &image[at..at + image[at] as usize];
        let number = |from: usize| u32::from_le_bytes(record[from..from + 4].try_into().unwrap()) as usize;
        if record[25] & 2 == 0 {
            let name: Vec<u16> = record[33..33 + record[32] as usize]
                .chunks(2)
                .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
                .collect();
            let begins = number(2) * SECTOR;
            files.insert(String::from_utf16(&name).unwrap(), image[begins..begins + number(10)].to_vec());
        }
        at += record.len();
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &[u8] = b"#cloud-config\n\xff\0";

    fn two() -> Vec<u8> {
        let long = vec![7; 5000];
        image(
            "cidata",
            &[
                File { name: "user-data", plain: "USER_DAT.;1", data: USER },
                File { name: "meta-data", plain: "META_DAT.;1", data: &long },
            ],
        )
    }

    #[test]
    fn files_come_back_byte_for_byte() {
        let files = read(&two());
        assert_eq!(files["user-data"], USER);
        assert_eq!(files["meta-data"], vec![7; 5000]);
        assert_eq!(files.len(), 2);
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        assert_eq!(two(), two());
    }

    #[test]
    fn descriptors_say_what_readers_look_for() {
        let image = two();
        assert_eq!(image.len() % SECTOR, 0);
        let sector = |number: usize| &image[number * SECTOR..(number + 1) * SECTOR];
        assert_eq!(&sector(16)[..6], b"\x01CD001");
        assert_eq!(&sector(16)[40..46], b"cidata");
        assert_eq!(&sector(17)[..6], b"\x02CD001");
        assert_eq!(&sector(17)[88..91], b"%/E");
        assert_eq!(&sector(18)[..6], b"\xffCD001");
        let total = u32::from_le_bytes(sector(16)[80..84].try_into().unwrap());
        assert_eq!(total as usize * SECTOR, image.len());
    }
}
