//! Machines: their config, their state, and what is begun with them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    answers::{self, Answer, Refused},
    routes::Fields,
    state::{Line, Machine, World},
    tasks::{self, Work},
};

/// Numbers in a config; the rest is text.
const NUMBERS: [&str; 5] = ["cores", "sockets", "onboot", "kvm", "numa"];
/// A guest boots for so long.
const BOOT_MS: u64 = 20_000;
/// Beside disks and networks.
const OPTIONS: [&str; 12] = [
    "name",
    "description",
    "cores",
    "sockets",
    "memory",
    "agent",
    "onboot",
    "tags",
    "cpu",
    "boot",
    "protection",
    "digest",
];

/// One of these privileges at a path.
pub fn may(world: &World, path: &str, any: &[&str]) -> Answer<()> {
    if any.iter().any(|privilege| world.has(path, privilege)) {
        return Ok(());
    }
    Err(answers::forbidden(path, &any.join("|")))
}

/// Of a machine, or of the pool that it is made in. Before it is known whether there is one.
fn may_vm(world: &World, vmid: u32, privilege: &str) -> Answer<()> {
    may(world, &format!("/vms/{vmid}"), &[privilege])
}

/// None for what no such path is.
pub fn answer(
    world: &mut World,
    method: &str,
    node: &str,
    vmid: u32,
    rest: &[&str],
    fields: &Fields,
) -> Option<Answer> {
    Some(match (method, rest) {
        ("GET", ["config"]) => config(world, node, vmid, fields),
        ("PUT", ["config"]) => set(world, node, vmid, fields),
        ("POST", ["clone"]) => clone(world, node, vmid, fields),
        ("PUT", ["resize"]) => resize(world, node, vmid, fields),
        ("POST", ["template"]) => template(world, node, vmid),
        ("GET", ["status", "current"]) => status(world, node, vmid),
        ("POST", ["status", "start"]) => begin(world, node, vmid, "qmstart", Work::Start { vmid }),
        ("POST", ["status", "stop"]) => begin(world, node, vmid, "qmstop", Work::Stop { vmid }),
        ("DELETE", []) => destroy(world, node, vmid, fields),
        ("GET", ["agent", "network-get-interfaces"]) => agent(world, node, vmid),
        ("GET", ["firewall", "rules"]) => rules(world, node, vmid),
        ("POST", ["firewall", "rules"]) => add_rule(world, node, vmid, fields),
        ("PUT", ["firewall", "options"]) => arm(world, node, vmid, fields),
        _ => return None,
    })
}

fn at<'w>(world: &'w World, node: &str, vmid: u32) -> Answer<&'w Machine> {
    let machine = world.machines.get(&vmid).filter(|machine| machine.node == node && !machine.container);
    machine.ok_or_else(|| answers::no_config(node, vmid))
}

fn at_mut<'w>(world: &'w mut World, node: &str, vmid: u32) -> Answer<&'w mut Machine> {
    let machine = world.machines.get_mut(&vmid).filter(|machine| machine.node == node && !machine.container);
    machine.ok_or_else(|| answers::no_config(node, vmid))
}

fn config(world: &World, node: &str, vmid: u32, fields: &Fields) -> Answer {
    fields.only(&["current", "snapshot"])?;
    may_vm(world, vmid, "VM.Audit")?;
    let machine = at(world, node, vmid)?;
    let mut told = Map::new();
    for (key, value) in &machine.config {
        let number = value.parse::<u64>().ok().filter(|_| NUMBERS.contains(&key.as_str()));
        told.insert(key.clone(), number.map_or_else(|| value.trim_end().into(), Value::from));
    }
    if machine.get("name").is_empty() {
        // As a clone is before its first disk is copied; the blank stands there.
        told.insert("description".to_owned(), machine.get("description").into());
    }
    if let Some(lock) = &machine.lock {
        told.insert("lock".to_owned(), lock.as_str().into());
    }
    if machine.template {
        told.insert("template".to_owned(), 1.into());
    }
    told.insert("digest".to_owned(), format!("{:040x}", machine.writes).into());
    Ok(Value::Object(told))
}

fn privilege(key: &str) -> &'static str {
    match key {
        "cores" | "sockets" | "cpu" => "VM.Config.CPU",
        "memory" => "VM.Config.Memory",
        "ide2" => "VM.Config.CDROM",
        key if key.starts_with("net") => "VM.Config.Network",
        key if ["scsi", "virtio", "sata", "ide"].iter().any(|kind| key.starts_with(kind)) => "VM.Config.Disk",
        _ => "VM.Config.Options",
    }
}

fn set(world: &mut World, node: &str, vmid: u32, fields: &Fields) -> Answer {
    let drive = |key: &str| ["net", "ide", "scsi", "virtio", "sata"].iter().any(|kind| key.starts_with(kind));
    for key in fields.pairs().keys() {
        if !OPTIONS.contains(&key.as_str()) && !drive(key) {
            return Err(answers::unknown_parameter(key));
        }
        may_vm(world, vmid, privilege(key))?;
    }
    if fields.get("description").is_some_and(|text| text.len() > 8_192) {
        return Err(answers::parameter("description", "value may only be 8192 characters long"));
    }
    if let Some(name) = fields.get("name")
        && !is_dns(name)
    {
        return Err(answers::parameter(
            "name",
            "invalid format - value does not look like a valid DNS name\n",
        ));
    }
    let tags = fields.get("tags").map(tags).transpose()?;
    if fields.pairs().is_empty() {
        return Err(answers::fails("no options specified"));
    }
    let machine = at(world, node, vmid)?;
    if let Some(lock) = &machine.lock {
        return Err(answers::fails(answers::locked(lock)));
    }
    if let Some(volume) = fields.get("ide2").and_then(|drive| drive.split(',').next())
        && volume.contains(":iso/")
        && world.iso(node, volume).is_none()
    {
        return Err(answers::fails(answers::no_volume(volume)));
    }
    let machine = at_mut(world, node, vmid)?;
    for (key, value) in fields.pairs() {
        machine.config.insert(key.clone(), value.trim_end().to_owned());
    }
    if let Some(tags) = tags {
        machine.config.insert("tags".to_owned(), tags);
    }
    machine.writes += 1;
    Ok(Value::Null)
}

fn is_dns(name: &str) -> bool {
    let label = |label: &str| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        edge(label.chars().next())
            && edge(label.chars().last())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    name.split('.').all(label)
}

/// Lower case, sorted, each once.
fn tags(text: &str) -> Answer<String> {
    let split = |c: char| matches!(c, ',' | ';') || c.is_whitespace();
    let mut tags: Vec<String> =
        text.split(split).filter(|tag| !tag.is_empty()).map(str::to_lowercase).collect();
    let legal = |tag: &String| tag.chars().all(|c| c.is_ascii_alphanumeric() || "_-+.".contains(c));
    if !tags.iter().all(legal) {
        return Err(answers::parameter("tags", "invalid format - invalid characters in tag\n"));
    }
    tags.sort();
    tags.dedup();
    Ok(tags.join(";"))
}

fn clone(world: &mut World, node: &str, source: u32, fields: &Fields) -> Answer {
    fields.only(&[
        "newid",
        "name",
        "description",
        "pool",
        "snapname",
        "storage",
        "format",
        "full",
        "target",
        "bwlimit",
    ])?;
    let newid: u32 = fields.need("newid")?.parse().unwrap_or_default();
    if !(100..=999_999_999).contains(&newid) {
        let text = "invalid format - value does not look like a valid VM ID\n";
        return Err(answers::parameter("newid", text));
    }
    may_vm(world, source, "VM.Clone")?;
    match fields.get("pool") {
        Some(pool) if !world.pools.contains(pool) => return Err(answers::no_pool(pool)),
        Some(pool) if !world.rights.has(&format!("/pool/{pool}"), "VM.Allocate") => {
            return Err(Refused { status: 403, ..answers::fails("Permission check failed") });
        }
        Some(_) => {}
        None => may_vm(world, newid, "VM.Allocate")?,
    }
    let template = match at(world, node, source) {
        Ok(machine) => machine.clone(),
        Err(_) => {
            let text = format!("unable to find configuration file for VM {source} on node '{node}'");
            return Err(answers::fails(text));
        }
    };
    let full = fields.flag("full")? || (!template.template && fields.get("full").is_none());
    let target = fields.get("target").unwrap_or(node);
    if let Some(storage) = fields.get("storage") {
        if !full {
            return Err(answers::fails("parameter 'storage' not allowed for linked clones"));
        }
        if world.storage(target, storage).is_none() {
            return Err(answers::fails(answers::no_storage(storage)));
        }
        if target != node && world.storage(target, storage).is_some_and(|storage| !storage.shared) {
            return Err(answers::fails(format!("can't clone to non-shared storage '{storage}'")));
        }
    }
    let disks = template.config.iter().filter(|(key, _)| key.starts_with("scsi") && *key != "scsihw");
    let local = disks
        .filter_map(|(_, value)| value.split(':').next())
        .any(|storage| world.storage(node, storage).is_none_or(|storage| !storage.shared));
    if target != node && local {
        return Err(answers::fails(format!("can't clone VM to node '{target}' (VM uses local storage)")));
    }
    if let Some(lock) = &template.lock {
        return Err(answers::fails(answers::locked(lock)));
    }
    if world.machines.get(&newid).is_some_and(|machine| machine.node == node) {
        return Err(answers::fails(format!("unable to create VM {newid}: config file already exists")));
    }
    let get = |name: &str| fields.get(name).map(str::to_owned);
    let work = Work::Clone(tasks::Clone {
        source,
        newid,
        name: get("name").unwrap_or_else(|| format!("Copy-of-VM-{}", template.get("name"))),
        description: get("description").unwrap_or_else(|| template.get("description").to_owned()),
        target: target.to_owned(),
        pool: get("pool"),
        storage: get("storage"),
        full,
        step: 0,
    });
    Ok(world.begin(node, "qmclone", &source.to_string(), work).into())
}

fn resize(world: &mut World, node: &str, vmid: u32, fields: &Fields) -> Answer {
    fields.only(&["disk", "size", "digest"])?;
    may_vm(world, vmid, "VM.Config.Disk")?;
    at(world, node, vmid)?;
    let (disk, size) = (fields.need("disk")?.to_owned(), fields.need("size")?.to_owned());
    let upid = world.begin(node, "resize", &vmid.to_string(), Work::Resize { vmid, disk, size });
    if world.line == Line::V8 {
        world.finish(&upid);
        return Ok(Value::Null);
    }
    Ok(upid.into())
}

fn template(world: &mut World, node: &str, vmid: u32) -> Answer {
    may_vm(world, vmid, "VM.Allocate")?;
    at_mut(world, node, vmid)?.template = true;
    Ok(world.begin(node, "qmtemplate", &vmid.to_string(), Work::Nothing).into())
}

fn status(world: &World, node: &str, vmid: u32) -> Answer {
    may_vm(world, vmid, "VM.Audit")?;
    let machine = at(world, node, vmid)?;
    let name = Some(machine.get("name")).filter(|name| !name.is_empty()).map(str::to_owned);
    let (status, inner) = match &machine.run {
        Some(run) => ("running", run.inner.as_str()),
        None => ("stopped", "stopped"),
    };
    let mut told = json!({
        "vmid": vmid, "name": name.unwrap_or_else(|| format!("VM {vmid}")), "status": status, "qmpstatus": inner,
        "cpus": 1, "maxmem": machine.memory() * 1024 * 1024, "ha": { "managed": 0 },
    });
    if let (Some(lock), Some(map)) = (&machine.lock, told.as_object_mut()) {
        map.insert("lock".to_owned(), lock.as_str().into());
    }
    Ok(told)
}

/// Start and stop take a machine that is not there, and fail in their task.
fn begin(world: &mut World, node: &str, vmid: u32, kind: &str, work: Work) -> Answer {
    may_vm(world, vmid, "VM.PowerMgmt")?;
    Ok(world.begin(node, kind, &vmid.to_string(), work).into())
}

fn destroy(world: &mut World, node: &str, vmid: u32, fields: &Fields) -> Answer {
    fields.only(&["purge", "destroy-unreferenced-disks", "skiplock"])?;
    fields.flag("purge")?;
    may_vm(world, vmid, "VM.Allocate")?;
    if fields.get("skiplock").is_some() {
        return Err(answers::parameter("skiplock", "Only root may use this option."));
    }
    let machine = at(world, node, vmid)?;
    if machine.get("protection") == "1" {
        return Err(answers::fails(format!("can't remove VM {vmid} - protection mode enabled")));
    }
    if machine.run.is_some() {
        return Err(answers::fails(format!("VM {vmid} is running - destroy failed")));
    }
    Ok(world.begin(node, "qmdestroy", &vmid.to_string(), Work::Destroy { vmid, waited: 0 }).into())
}

fn agent(world: &World, node: &str, vmid: u32) -> Answer {
    match world.line {
        Line::V8 => may_vm(world, vmid, "VM.Monitor")?,
        Line::V9 => {
            may(world, &format!("/vms/{vmid}"), &["VM.GuestAgent.Audit", "VM.GuestAgent.Unrestricted"])?;
        }
    }
    let machine = at(world, node, vmid)?;
    if !machine.get("agent").starts_with('1') {
        return Err(answers::fails("No QEMU guest agent configured"));
    }
    let Some(run) = &machine.run else {
        return Err(answers::fails(format!("VM {vmid} is not running")));
    };
    if world.now() < run.since_ms + BOOT_MS || run.inner != "running" {
        return Err(answers::fails("QEMU guest agent is not running"));
    }
    if machine.get("agent").contains("refuses") {
        return Ok(json!({ "result": { "error": { "class": "CommandNotFound",
            "desc": "The command guest-network-get-interfaces has been disabled for this instance" } } }));
    }
    let lo = json!({ "name": "lo", "ip-addresses": [
        { "ip-address": "127.0.0.1", "ip-address-type": "ipv4", "prefix": 8 } ] });
    let card = json!({ "name": "eth0", "hardware-address": "bc:24:11:00:00:01", "ip-addresses": [
        { "ip-address": "fe80::be24:11ff:fe00:1", "ip-address-type": "ipv6", "prefix": 64 },
        { "ip-address": format!("10.20.{}.{}", vmid / 250 % 250, vmid % 250 + 1), "ip-address-type": "ipv4",
          "prefix": 16 } ] });
    let cards = if machine.silent { vec![lo] } else { vec![lo, card] };
    Ok(json!({ "result": cards }))
}

fn rules(world: &World, node: &str, vmid: u32) -> Answer {
    may_vm(world, vmid, "VM.Audit")?;
    Ok(json!(at(world, node, vmid)?.rules))
}

/// From memory.
fn add_rule(world: &mut World, node: &str, vmid: u32, fields: &Fields) -> Answer {
    fields.only(&["type", "action", "enable", "proto", "dport", "source", "comment", "pos"])?;
    may_vm(world, vmid, "VM.Config.Network")?;
    let rule: BTreeMap<String, String> = fields.pairs().clone();
    at_mut(world, node, vmid)?.rules.push(rule);
    Ok(Value::Null)
}

/// From memory.
fn arm(world: &mut World, node: &str, vmid: u32, fields: &Fields) -> Answer {
    fields.only(&["enable", "policy_in", "policy_out"])?;
    may_vm(world, vmid, "VM.Config.Network")?;
    at_mut(world, node, vmid)?.armed = fields.flag("enable")?;
    Ok(Value::Null)
}
