//! Storages: their room, the images on them, uploads.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    answers::{self, Answer},
    machines::may,
    routes::{Fields, Reply},
    state::World,
    tasks::Work,
};

pub fn status(world: &World, node: &str, name: &str) -> Answer {
    let Some(storage) = world.storage(node, name) else {
        return Err(answers::parameter("storage", "No such storage."));
    };
    may(world, &format!("/storage/{name}"), &["Datastore.Audit", "Datastore.AllocateSpace"])?;
    let (total, used) = match (storage.active, storage.full) {
        (false, _) => (0, 0),
        (true, true) => (storage.total, storage.total),
        (true, false) => (storage.total, storage.total / 10),
    };
    Ok(json!({
        "type": "dir", "content": storage.content, "enabled": 1, "active": u8::from(storage.active),
        "shared": u8::from(storage.shared), "total": total, "used": used, "avail": total - used,
    }))
}

pub fn content(world: &World, node: &str, name: &str, fields: &Fields) -> Answer {
    fields.only(&["content", "vmid", "storage"])?;
    let Some(storage) = world.storage(node, name) else {
        return Err(answers::fails(answers::no_storage(name)));
    };
    may(world, &format!("/storage/{name}"), &["Datastore.Audit", "Datastore.AllocateSpace"])?;
    let told = storage.isos.iter().map(|(file, iso)| {
        json!({
            "volid": format!("{name}:iso/{file}"), "format": "iso", "content": "iso", "size": iso.data.len(),
            "ctime": iso.at_ms / 1000,
        })
    });
    Ok(Value::Array(told.collect()))
}

pub fn upload(world: &mut World, node: &str, name: &str, fields: &Fields) -> Answer {
    fields.only(&["content", "checksum", "checksum-algorithm"])?;
    let content = fields.need("content")?;
    if !["iso", "vztmpl", "import"].contains(&content) {
        let text =
            format!("value '{content}' does not have a value in the enumeration 'iso, vztmpl, import'");
        return Err(answers::parameter("content", &text));
    }
    may(world, &format!("/storage/{name}"), &["Datastore.AllocateTemplate"])?;
    if world.storage(node, name).is_none() {
        return Err(answers::fails(answers::no_storage(name)));
    }
    let file = fields.file.as_ref().ok_or_else(|| answers::missing_parameter("filename"))?;
    let named = file.file_name.as_deref().unwrap_or_default();
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let named: String = named.chars().map(safe).collect();
    let lower = named.to_ascii_lowercase();
    if content == "iso" && !lower.ends_with(".iso") && !lower.ends_with(".img") {
        return Err(answers::parameter("filename", "wrong file extension"));
    }
    let work = Work::Upload { storage: name.to_owned(), file: named, data: file.data.clone() };
    Ok(world.begin(node, "imgcopy", "", work).into())
}

pub fn erase(world: &mut World, node: &str, name: &str, volume: &str, fields: &Fields) -> Reply {
    let begun = (|| -> Answer<(String, u64)> {
        fields.only(&["delay"])?;
        may(world, &format!("/storage/{name}"), &["Datastore.Allocate"])?;
        if world.storage(node, name).is_none() {
            return Err(answers::fails(answers::no_storage(name)));
        }
        let Some((storage, file)) = volume.split_once(":iso/") else {
            return Err(answers::fails(format!("unable to parse directory volume name '{volume}'")));
        };
        if storage != name {
            return Err(answers::parameter(
                "volume",
                &format!("storage ID mismatch ({storage} != {name})\n"),
            ));
        }
        let delay = fields.get("delay").and_then(|delay| delay.parse().ok()).unwrap_or(0);
        let work = Work::Erase { storage: name.to_owned(), file: file.to_owned() };
        Ok((world.begin(node, "imgdel", name, work), delay))
    })();
    match begun {
        Err(refused) => Reply::Now(Err(refused)),
        Ok((upid, 0)) => Reply::Now(Ok(upid.into())),
        Ok((upid, delay)) => {
            let done = world.iso(node, volume).is_none_or(|iso| !iso.held);
            let time = if done { Duration::from_millis(300) } else { Duration::from_secs(delay) };
            Reply::After(time, upid)
        }
    }
}
