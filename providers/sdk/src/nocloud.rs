//! The seed: what cloud-init reads at the first boot, as a NoCloud ISO.
//!
//! The user-data is the Proxy's, byte for byte, and never looked into. The vendor-data installs the guest agent,
//! without which a bridge shows no address. It is a script and no cloud-config on purpose: cloud-init merges a
//! vendor's cloud-config under the user's so that the user's value of every key wins whole, and a Proxy with
//! `packages:` of its own would lose the agent without a word.

mod iso;

use iso::File;

const LABEL: &str = "cidata";
/// Stands in no document.
const BOUNDARY: &str = "==egress-vendor-data==";

const AGENT: &str = r#"#!/bin/sh
# Installs and starts qemu-guest-agent: the hypervisor asks it for the address.
if ! command -v qemu-ga >/dev/null 2>&1; then
  if command -v apt-get >/dev/null 2>&1; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update && apt-get install -y qemu-guest-agent
  elif command -v dnf >/dev/null 2>&1; then
    dnf install -y qemu-guest-agent
  elif command -v yum >/dev/null 2>&1; then
    yum install -y qemu-guest-agent
  elif command -v zypper >/dev/null 2>&1; then
    zypper --non-interactive install qemu-guest-agent
  elif command -v apk >/dev/null 2>&1; then
    apk add qemu-guest-agent
  fi
fi
if command -v systemctl >/dev/null 2>&1; then
  systemctl enable qemu-guest-agent >/dev/null 2>&1
  systemctl start qemu-guest-agent
elif command -v rc-service >/dev/null 2>&1; then
  rc-update add qemu-guest-agent default >/dev/null 2>&1
  rc-service qemu-guest-agent start
fi
"#;

/// What a machine is to find.
#[derive(Clone, Copy, Debug)]
pub struct Seed<'a> {
    /// The instance's: a reboot is never taken for a new machine.
    pub name: &'a str,
    /// As the Proxy gives it.
    pub user_data: &'a [u8],
    /// A document beside it.
    pub vendor_data: Option<&'a str>,
    /// Whether the vendor-data installs the guest agent.
    pub install_guest_agent: bool,
    /// The network's configuration; none for what the image does by itself.
    pub network_config: Option<&'a str>,
}

impl Seed<'_> {
    /// The image. The same seed gives the same bytes.
    pub fn image(&self) -> Vec<u8> {
        let name = self.name;
        let meta = format!("instance-id: {name}\nlocal-hostname: {name}\n");
        let vendor = vendor_data(self.vendor_data, self.install_guest_agent);
        let mut files = vec![
            File { name: "meta-data", plain: "META_DAT.;1", data: meta.as_bytes() },
            File { name: "user-data", plain: "USER_DAT.;1", data: self.user_data },
            File { name: "vendor-data", plain: "VENDOR_D.;1", data: vendor.as_bytes() },
        ];
        if let Some(network) = self.network_config {
            files.push(File { name: "network-config", plain: "NETWORK_.;1", data: network.as_bytes() });
        }
        iso::image(LABEL, &files)
    }
}

fn vendor_data(configured: Option<&str>, agent: bool) -> String {
    match (configured, agent) {
        (None, false) => String::new(),
        (None, true) => AGENT.to_owned(),
        (Some(document), false) => document.to_owned(),
        (Some(document), true) => format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n\
             --{BOUNDARY}\nContent-Type: text/plain; charset=\"utf-8\"\n\n{document}\n\
             --{BOUNDARY}\nContent-Type: text/x-shellscript; charset=\"utf-8\"\n\n{AGENT}\n--{BOUNDARY}--\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_script_is_vendor_data_alone_or_a_part_of_it() {
        assert_eq!(vendor_data(None, false), "");
        assert!(vendor_data(None, true).starts_with("#!/bin/sh\n"));
        assert_eq!(vendor_data(Some("#cloud-config\n"), false), "#cloud-config\n");
        let both = vendor_data(Some("#cloud-config\npackages: [vim]"), true);
        assert!(both.starts_with("MIME-Version: 1.0\n"));
        assert!(both.contains("text/plain") && both.contains("text/x-shellscript"));
        assert!(both.contains("packages: [vim]") && both.contains("qemu-guest-agent"));
    }

    #[test]
    fn user_data_stands_in_the_image_byte_for_byte() {
        let user_data = b"\xff\0 #cloud-config\r\n";
        let seed = Seed {
            name: "proxy-a",
            user_data,
            vendor_data: None,
            install_guest_agent: false,
            network_config: Some("version: 2\n"),
        };
        let files = iso::read(&seed.image());
        assert_eq!(files["user-data"], user_data);
        assert_eq!(files["meta-data"], b"instance-id: proxy-a\nlocal-hostname: proxy-a\n");
        assert_eq!(files["network-config"], b"version: 2\n");
    }
}
