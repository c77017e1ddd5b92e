//! The operator is killed again and again while files change: afterwards exactly what the files say is there.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{
    backend::Backend,
    site::{Site, files, proxy},
    soak,
};

const PROXIES: usize = 12;

/// Draws from a seed; the same moments for the same one.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut drawn = self.0;
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (drawn ^ (drawn >> 31)) % limit
    }
}

/// Parses every status file all the time.
struct Reader {
    stop: Arc<AtomicBool>,
    read: Arc<AtomicUsize>,
    thread: thread::JoinHandle<Vec<String>>,
}

impl Reader {
    fn start(status: PathBuf) -> Self {
        let (stop, read) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&read));
        let thread = thread::spawn(move || {
            let mut torn = Vec::new();
            while !stopped.load(Ordering::SeqCst) {
                let mut found = Vec::new();
                files(&status, &mut found);
                for path in found.into_iter().filter(|path| is_object(path)) {
                    // One that went meanwhile is not torn.
                    let Ok(text) = fs::read_to_string(&path) else { continue };
                    count.fetch_add(1, Ordering::SeqCst);
                    if let Err(why) = whole(&path, &text) {
                        torn.push(format!("{}: {why}: {text:?}", path.display()));
                    }
                }
                thread::sleep(Duration::from_millis(2));
            }
            torn
        });
        Self { stop, read, thread }
    }

    fn torn(self) -> (Vec<String>, usize) {
        self.stop.store(true, Ordering::SeqCst);
        (self.thread.join().unwrap(), self.read.load(Ordering::SeqCst))
    }
}

/// Modules are large, and read slowly; their one writer is the same.
fn is_object(path: &Path) -> bool {
    let of = |folder: &str| path.components().any(|part| part.as_os_str() == folder);
    path.extension().is_some_and(|extension| extension == "yaml")
        && (of("proxies") || of("providerhealths") || of("namespaces") || of("secrets"))
}

fn whole(path: &Path, text: &str) -> Result<(), String> {
    let object: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let name = path.file_stem().unwrap().to_str().unwrap();
    match object["metadata"]["name"].as_str() == Some(name) && object["metadata"]["uid"].is_string() {
        true => Ok(()),
        false => Err("it lacks its name or UID".to_owned()),
    }
}

#[test]
fn an_operator_that_is_killed_while_files_change_leaves_what_they_say_and_nothing_else() {
    let seed = std::env::var("EPO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_130);
    let kills = if soak() { 200 } else { 20 };
    println!("EPO_SEED={seed}, {kills} kills");
    let mut chance = Chance(seed);
    let backend = Backend::start();
    let site = Site::new();
    site.save("providers.yaml", &backend.entry());
    // The first start compiles the component, and is not what is to be killed.
    site.put_proxy("first", "gcp", 3128);
    let operator = site.start();
    site.phase("first", "Running");
    operator.kill();
    let reader = Reader::start(site.path.join(".status"));

    // Name to port, of those that are to be there.
    let mut wanted = BTreeMap::from([("first".to_owned(), 3128)]);
    // Whose file was removed by hand: one at a time, as more at once would be asked about.
    let mut leaving: Option<String> = None;
    let mut number = 0;
    for _ in 0..kills {
        let mut operator = site.start();
        thread::sleep(Duration::from_millis(chance.below(900)));
        for _ in 0..2 + chance.below(5) {
            if leaving.as_ref().is_some_and(|name| site.proxy(name).is_none_or(|proxy| is_deleting(&proxy))) {
                leaving = None;
            }
            let name = wanted
                .keys()
                .nth(usize::try_from(chance.below(1 << 20)).unwrap() % wanted.len())
                .cloned()
                .unwrap();
            match chance.below(10) {
                0..4 if wanted.len() < PROXIES => {
                    number += 1;
                    let name = format!("p{number}");
                    site.put_proxy(&name, "gcp", 3128);
                    wanted.insert(name, 3128);
                }
                4 | 5 => {
                    // Not as an editor would: in place, and in two parts.
                    let port = wanted[&name] + 1;
                    let (path, text) = (site.path.join(format!("{name}.yaml")), proxy(&name, "gcp", port));
                    fs::write(&path, &text[..text.len() / 2]).unwrap();
                    thread::sleep(Duration::from_millis(chance.below(40)));
                    fs::write(&path, text).unwrap();
                    wanted.insert(name, port);
                }
                6 => {
                    // Broken for longer than the operator needs to see it, and mended.
                    let path = site.path.join(format!("{name}.yaml"));
                    let text = fs::read(&path).unwrap();
                    fs::write(&path, "kind: [Proxy\n").unwrap();
                    thread::sleep(Duration::from_millis(chance.below(1600)));
                    fs::write(&path, text).unwrap();
                }
                7 if wanted.len() > 2 && leaving.is_none() && site.proxy(&name).is_some() => {
                    fs::remove_file(site.path.join(format!("{name}.yaml"))).unwrap();
                    wanted.remove(&name);
                    leaving = Some(name);
                }
                8 | 9 if wanted.len() > 2 && site.proxy(&name).is_some() => {
                    let ran = site.epo(&["delete", "proxy", &name, "--wait=false"]);
                    assert_eq!(ran.code, 0, "{}", ran.err);
                    wanted.remove(&name);
                }
                _ => {}
            }
            thread::sleep(Duration::from_millis(chance.below(300)));
        }
        thread::sleep(Duration::from_millis(chance.below(1500)));
        operator.assert_running();
        operator.kill();
    }

    let mut operator = site.start();
    for (name, port) in &wanted {
        site.port(name, *port);
        site.phase(name, "Running");
    }
    site.eventually("the status files are those of the wanted Proxies", || {
        let mut found = Vec::new();
        files(&site.path.join(".status/proxies"), &mut found);
        let names = found.iter().map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
        let names: Vec<String> = names.collect();
        let mut sorted = names.clone();
        sorted.sort();
        if sorted.iter().eq(wanted.keys()) {
            Ok(())
        } else {
            Err(format!("{sorted:?} for {:?}", wanted.keys()))
        }
    });
    site.eventually("exactly one machine of each is there", || {
        let mut named: Vec<String> = wanted
            .keys()
            .map(|name| site.proxy(name).unwrap()["status"]["instance"]["name"].as_str().unwrap().to_owned())
            .collect();
        let mut machines = backend.machines();
        named.sort();
        machines.sort();
        if named == machines { Ok(()) } else { Err(format!("{machines:?}, and wanted are {named:?}")) }
    });
    assert!(!site.has_said("panicked"), "{}", site.log());
    let left = site.epo(&["get"]);
    assert!(!left.err.contains("no operator runs"), "{}", left.err);
    operator.assert_running();
    let (torn, read) = reader.torn();
    assert!(read > kills, "the reader looked {read} times");
    assert_eq!(torn, [""; 0]);
    println!("{} Proxies made, {} requests, {read} status files read", number + 1, backend.requests());
}

fn is_deleting(proxy: &Value) -> bool {
    proxy["metadata"]["deletionTimestamp"].is_string()
}
