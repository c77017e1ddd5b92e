//! What is about the cluster, its nodes and their tasks.

use serde_json::{Map, Value, json};

use super::{
    answers::{self, Answer},
    machines,
    routes::Fields,
    state::{Line, STATISTICS_MS, World},
};

pub fn version(world: &World) -> Answer {
    Ok(match world.line {
        Line::V8 => json!({ "version": "8.4.1", "release": "8.4", "repoid": "0123456789abcdef" }),
        Line::V9 => json!({ "version": "9.2.11", "release": "9.2", "repoid": "14a22df35955d97d" }),
    })
}

pub fn resources(world: &World, fields: &Fields) -> Answer {
    fields.only(&["type"])?;
    if let Some(kind) = fields.get("type")
        && !["vm", "storage", "node", "sdn"].contains(&kind)
    {
        let text =
            format!("value '{kind}' does not have a value in the enumeration 'vm, storage, node, sdn'");
        return Err(answers::parameter("type", &text));
    }
    let seen = world.machines.iter().filter(|(vmid, _)| world.has(&format!("/vms/{vmid}"), "VM.Audit"));
    let entry = |(vmid, machine): (&u32, &super::state::Machine)| {
        let kind = if machine.container { "lxc" } else { "qemu" };
        let mut entry = Map::new();
        let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
        put("id", format!("{kind}/{vmid}").into());
        put("vmid", (*vmid).into());
        put("node", machine.node.as_str().into());
        put("type", kind.into());
        if let Some(lock) = &machine.lock {
            put("lock", lock.as_str().into());
        }
        if !machine.get("tags").is_empty() {
            put("tags", machine.get("tags").into());
        }
        match world.shown_name(*vmid, machine) {
            None => {
                put("status", "unknown".into());
            }
            Some(name) => {
                put("name", name.into());
                put("template", u8::from(machine.template).into());
                put("maxmem", (machine.memory() * 1024 * 1024).into());
                // As the statistics saw it.
                let last = world.now() / STATISTICS_MS * STATISTICS_MS;
                let runs = machine.run.as_ref().filter(|run| run.since_ms <= last);
                put("status", runs.map_or("stopped", |run| run.inner.as_str()).into());
            }
        }
        Value::Object(entry)
    };
    Ok(Value::Array(seen.map(entry).collect()))
}

pub fn next_id(world: &World, fields: &Fields) -> Answer {
    fields.only(&["vmid"])?;
    if let Some(asked) = fields.get("vmid") {
        let vmid: u32 = asked.parse().unwrap_or_default();
        return match world.machines.contains_key(&vmid) {
            true => Err(answers::parameter("vmid", &format!("VM {vmid} already exists\n"))),
            false => Ok(asked.into()),
        };
    }
    let free = (100..).find(|vmid| !world.machines.contains_key(vmid)).unwrap_or(100);
    Ok(free.to_string().into())
}

pub fn node(world: &World, name: &str) -> Answer {
    machines::may(world, &format!("/nodes/{name}"), &["Sys.Audit"])?;
    let total = world.nodes.get(name).map_or(0, |node| node.memory);
    let free = world.free_memory(name);
    Ok(json!({
        "uptime": 1000 + world.now() / 1000,
        "loadavg": ["0.10", "0.20", "0.30"],
        "memory": { "total": total, "used": total - free, "free": free, "available": free },
        "current-kernel": { "sysname": "Linux", "release": "6.17.2-1-pve", "machine": "x86_64" },
        "pveversion": "pve-manager/9.2.11/14a22df35955d97d",
    }))
}

/// From memory.
pub fn tasks(world: &World, node: &str, fields: &Fields) -> Answer {
    fields.only(&[
        "source",
        "limit",
        "start",
        "typefilter",
        "vmid",
        "since",
        "until",
        "userfilter",
        "errors",
    ])?;
    let active = fields.get("source") == Some("active");
    let tasks = world.tasks.iter().filter(|(_, task)| {
        task.node == node
            && (!active || task.is_running())
            && fields.get("vmid").is_none_or(|vmid| task.id == vmid)
            && fields.get("typefilter").is_none_or(|kind| task.kind == kind)
    });
    let told = tasks.map(|(upid, task)| {
        let mut told = json!({
            "upid": upid, "node": task.node, "pid": 1, "pstart": 1, "starttime": task.start_ms / 1000,
            "type": task.kind, "id": task.id, "user": "epo@pve", "tokenid": "operator",
        });
        if let (Some(end), Some(map)) = (&task.end, told.as_object_mut()) {
            map.insert("endtime".to_owned(), (world.now() / 1000).into());
            map.insert("status".to_owned(), end.as_str().into());
        }
        told
    });
    Ok(Value::Array(tasks_limit(told, fields)))
}

fn tasks_limit(told: impl Iterator<Item = Value>, fields: &Fields) -> Vec<Value> {
    let most = fields.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(50);
    told.take(most).collect()
}

pub fn task(world: &World, upid: &str) -> Answer {
    let task = world.tasks.get(upid).ok_or_else(|| no_task(upid))?;
    let mut told = json!({
        "upid": upid, "node": task.node, "pid": 318, "pstart": 118_312, "starttime": task.start_ms / 1000,
        "type": task.kind, "id": task.id, "user": "epo@pve", "tokenid": "operator",
        "status": if task.is_running() { "running" } else { "stopped" },
    });
    if let (Some(end), Some(map)) = (&task.end, told.as_object_mut()) {
        map.insert("exitstatus".to_owned(), end.as_str().into());
    }
    Ok(told)
}

pub fn log(world: &World, upid: &str, fields: &Fields) -> Answer {
    fields.only(&["start", "limit", "download"])?;
    let task = world.tasks.get(upid).ok_or_else(|| no_task(upid))?;
    let mut lines = task.log.clone();
    lines.extend(task.end.as_deref().map(|end| match end {
        "OK" => "TASK OK".to_owned(),
        end if end.starts_with("WARNINGS: ") => format!("TASK {end}"),
        end => format!("TASK ERROR: {end}"),
    }));
    let told = lines.into_iter().enumerate().map(|(at, line)| json!({ "n": at + 1, "t": line }));
    Ok(Value::Array(tasks_limit(told, fields)))
}

fn no_task(upid: &str) -> answers::Refused {
    let text = if upid.starts_with("UPID:") { "no such task" } else { "unable to parse worker upid" };
    answers::parameter("upid", text)
}
