//! The values of drives and networks in a machine's config: `VOLUME,KEY=VALUE,..`.

/// A drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    pub storage: String,
    /// None where it does not say.
    pub bytes: Option<u64>,
}

/// None for what is no drive with a volume on a storage.
pub fn read(value: &str) -> Option<Disk> {
    let mut parts = value.split(',');
    let volume = parts.next()?;
    let volume = volume.strip_prefix("file=").unwrap_or(volume);
    let (storage, _) = volume.split_once(':')?;
    let bytes = parts.find_map(|part| part.strip_prefix("size=")).and_then(size);
    Some(Disk { storage: storage.to_owned(), bytes })
}

/// `8G`, `2252M`, `528K`, `4T`, or bytes.
fn size(text: &str) -> Option<u64> {
    let (number, unit) = match text.char_indices().next_back()? {
        (at, 'K') => (text.get(..at)?, 1 << 10),
        (at, 'M') => (text.get(..at)?, 1 << 20),
        (at, 'G') => (text.get(..at)?, 1 << 30),
        (at, 'T') => (text.get(..at)?, 1_u64 << 40),
        _ => (text, 1),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    // A part of a unit counts as one more: nobody is told that there is less than there is.
    let part = if part.is_empty() { 0 } else { unit };
    whole.checked_add(part)
}

/// The network with another bridge, tag or firewall; the card and its address stay.
pub fn network(value: &str, bridge: Option<&str>, vlan: Option<u64>, firewall: bool) -> String {
    let vlan = vlan.map(|tag| tag.to_string());
    let wanted = [("bridge", bridge), ("tag", vlan.as_deref()), ("firewall", firewall.then_some("1"))];
    let mut parts: Vec<String> = value.split(',').map(str::to_owned).collect();
    for (key, wanted) in wanted {
        let Some(wanted) = wanted else { continue };
        let part = format!("{key}={wanted}");
        match parts.iter_mut().find(|part| part.split_once('=').is_some_and(|(known, _)| known == key)) {
            Some(stands) => *stands = part,
            None => parts.push(part),
        }
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_say_their_storage_and_their_size_in_any_unit() {
        let disk = |value: &str| read(value).map(|disk| (disk.storage, disk.bytes));
        let gib = 1024 * 1024 * 1024;
        assert_eq!(disk("local:102/vm-102-disk-0.qcow2,size=1G"), Some(("local".to_owned(), Some(gib))));
        assert_eq!(disk("lvm:vm-1-disk-0,iothread=1,size=2252M"), Some(("lvm".to_owned(), Some(2252 << 20))));
        assert_eq!(disk("file=local:x.raw,size=528K"), Some(("local".to_owned(), Some(528 << 10))));
        assert_eq!(disk("local:1/vm.raw"), Some(("local".to_owned(), None)));
        assert_eq!(disk("none,media=cdrom"), None);
    }

    #[test]
    fn a_network_keeps_its_card_and_its_address() {
        let net = "virtio=BC:24:11:D6:88:DF,bridge=vmbr0,firewall=0";
        assert_eq!(
            network(net, Some("vnet1"), Some(7), true),
            "virtio=BC:24:11:D6:88:DF,bridge=vnet1,firewall=1,tag=7"
        );
        assert_eq!(network(net, None, None, false), net);
    }
}
