//! Objects, kept as files of their own: the memory of an operator without a cluster.
//!
//! Everything is in memory as well, read once at the start. A write is on the disk before it is known to anybody: what
//! the loops do next rests on it. Documents that people keep in the directory (entries, Secrets, user-data) are known
//! here and not written: they have a file already, and a Secret's copy would be one more to lose.

use std::{
    collections::{BTreeMap, VecDeque},
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::{
    files::{self, Readers},
    kinds::Kind,
    lock::Lock,
    text,
};

/// How many changes a watch may be behind before it has to list again.
const REMEMBERED: usize = 2048;
/// How many Events of a namespace are kept.
const EVENTS: usize = 256;

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Of what kind.
    pub kind: Kind,
    /// Empty where the kind has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// Of an object in a namespace, or of none in an empty one.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.kind.named().kind;
        match self.namespace.as_str() {
            "" => write!(f, "{kind} {}", self.name),
            namespace => write!(f, "{kind} {namespace}/{}", self.name),
        }
    }
}

/// Where an object is at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In a file of the operator's.
    Status,
    /// In a document of somebody's; it is not written.
    Document,
}

/// What a watch is told.
#[derive(Clone, Debug)]
pub struct Told {
    /// When.
    pub version: u64,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub what: &'static str,
    /// About which.
    pub key: Key,
    /// As it is, or was.
    pub object: Value,
}

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk, or the directory.
    #[error("{}: {cause}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The directory is not the one that was opened.
    #[error(
        "{} is not there any more: it was removed, unmounted or replaced; nothing is done until it is back",
        folder.display()
    )]
    Gone {
        /// The operator's folder.
        folder: PathBuf,
    },
    /// It can't be a file's name.
    #[error("{0} can't be kept: its name is no file's")]
    Name(Key),
    /// It can't be written as text.
    #[error("{0} can't be written as YAML")]
    Text(Key),
}

/// See the module.
pub struct Objects {
    folder: PathBuf,
    lock: Lock,
    state: Mutex<State>,
    newest: watch::Sender<u64>,
}

struct State {
    objects: BTreeMap<Key, (Value, Home)>,
    told: VecDeque<Told>,
    version: u64,
    /// What happened up to here is no longer known.
    floor: u64,
}

impl Objects {
    /// Reads what is there. A file that can't be read is an error: whose instance it speaks of would be unknown.
    pub fn open(folder: &Path, lock: Lock) -> Result<Self, WriteError> {
        let mut objects = BTreeMap::new();
        for named in Kind::all() {
            let below = folder.join(named.plural);
            let folders = match named.namespaced {
                true => children(&below)?.into_iter().filter(|path| path.is_dir()).collect(),
                false => vec![below],
            };
            for within in folders {
                let namespace = if named.namespaced { file_name(&within) } else { String::new() };
                for path in children(&within)? {
                    let name = file_name(&path);
                    if name.ends_with(files::TEMPORARY) {
                        files::remove(&path).map_err(|cause| WriteError::File { path, cause })?;
                    } else if let Some(name) = name.strip_suffix(".yaml") {
                        let object = read(&path)?;
                        objects.insert(Key::new(named.of, &namespace, name), (object, Home::Status));
                    }
                }
            }
        }
        let highest = objects.values().filter_map(|(object, _)| version(object)).max().unwrap_or_default();
        // Above all that was ever given out, also to what is gone since.
        let now = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
        let version = highest.max(now);
        let state = Mutex::new(State { objects, told: VecDeque::new(), version, floor: version });
        Ok(Self { folder: folder.to_owned(), lock, state, newest: watch::Sender::new(version) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the directory is still the one that was opened.
    pub fn stands(&self) -> bool {
        self.lock.stands().unwrap_or(false)
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<Value> {
        self.lock().objects.get(key).map(|(object, _)| object.clone())
    }

    /// All of a kind, in a namespace or in all, and the version that this is.
    pub fn list(&self, kind: Kind, namespace: Option<&str>) -> (Vec<(Key, Value)>, u64) {
        let state = self.lock();
        let wanted = |key: &Key| key.kind == kind && namespace.is_none_or(|only| key.namespace == only);
        let found = state.objects.iter().filter(|(key, _)| wanted(key));
        (found.map(|(key, (object, _))| (key.clone(), object.clone())).collect(), state.version)
    }

    /// Where the object is at home; none where there is no such.
    pub fn home(&self, key: &Key) -> Option<Home> {
        self.lock().objects.get(key).map(|(_, home)| *home)
    }

    /// Raised with each change.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// What happened after a version; none when that is no longer known.
    pub fn since(&self, version: u64) -> Option<Vec<Told>> {
        let state = self.lock();
        if !(state.floor..=state.version).contains(&version) {
            return None;
        }
        Some(state.told.iter().filter(|told| told.version > version).cloned().collect())
    }

    /// Changes one object, or makes or removes it, as `change` says: nobody else does meanwhile. `change` gets what is
    /// there, and answers what is to be there; what it answers beside that is passed on.
    pub fn update<T>(
        &self,
        key: &Key,
        change: impl FnOnce(Option<&Value>) -> (Next, T),
    ) -> Result<(Option<Value>, T), WriteError> {
        let mut state = self.lock();
        let before = state.objects.get(key);
        let (next, answer) = change(before.map(|(object, _)| object));
        let now = match next {
            Next::Same => return Ok((before.map(|(object, _)| object.clone()), answer)),
            Next::Put(object, home) => Some((object, home)),
            Next::Remove => None,
        };
        let had_file = before.is_some_and(|(_, home)| *home == Home::Status);
        let what = match (before.is_some(), now.is_some()) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return Ok((None, answer)),
        };
        let version = state.version.saturating_add(1);
        let now = now.map(|(object, home)| (stamped(object, key, version), home));
        match &now {
            Some((object, Home::Status)) => self.write(key, object)?,
            Some((_, Home::Document)) | None if had_file => self.erase(key)?,
            Some((_, Home::Document)) | None => {}
        }
        let object = match now {
            Some((object, home)) => {
                state.objects.insert(key.clone(), (object.clone(), home));
                Some(object)
            }
            None => {
                if let Some((object, _)) = state.objects.remove(key) {
                    let object = stamped(object, key, version);
                    state.tell(Told { version, what, key: key.clone(), object });
                }
                None
            }
        };
        if let Some(object) = &object {
            state.tell(Told { version, what, key: key.clone(), object: object.clone() });
        }
        state.version = version;
        if key.kind == Kind::Event && what == "ADDED" {
            self.forget_events(&mut state, &key.namespace);
        }
        drop(state);
        self.newest.send_replace(version);
        Ok((object, answer))
    }

    /// The oldest of too many: what was told long ago is nobody's news.
    fn forget_events(&self, state: &mut State, namespace: &str) {
        let of = |(key, (object, _)): (&Key, &(Value, Home))| {
            (key.kind == Kind::Event && key.namespace == namespace)
                .then(|| (version(object).unwrap_or_default(), key.clone()))
        };
        let mut events: Vec<_> = state.objects.iter().filter_map(of).collect();
        let over = events.len().saturating_sub(EVENTS);
        events.sort();
        for (_, key) in events.into_iter().take(over) {
            // One that stays after all is forgotten later.
            if self.erase(&key).is_ok() {
                state.objects.remove(&key);
            }
        }
    }

    fn path(&self, key: &Key) -> Result<PathBuf, WriteError> {
        let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['/', '\0']);
        let named = key.kind.named();
        if !part(&key.name) || (named.namespaced && !part(&key.namespace)) {
            return Err(WriteError::Name(key.clone()));
        }
        Ok(self.folder.join(named.plural).join(&key.namespace).join(format!("{}.yaml", key.name)))
    }

    fn write(&self, key: &Key, object: &Value) -> Result<(), WriteError> {
        let path = self.path(key)?;
        let text = text::write(object).ok_or_else(|| WriteError::Text(key.clone()))?;
        self.check()?;
        let readers = if key.kind == Kind::Secret { Readers::Owner } else { Readers::Everybody };
        let folder = path.parent().unwrap_or(&self.folder);
        let written = files::make_folder(folder, Readers::Everybody);
        let written = written.and_then(|()| files::replace(&path, text.as_bytes(), readers));
        written.map_err(|cause| WriteError::File { path, cause })
    }

    fn erase(&self, key: &Key) -> Result<(), WriteError> {
        let path = self.path(key)?;
        self.check()?;
        files::remove(&path).map_err(|cause| WriteError::File { path, cause })
    }

    fn check(&self) -> Result<(), WriteError> {
        if self.stands() { Ok(()) } else { Err(WriteError::Gone { folder: self.folder.clone() }) }
    }
}

/// What becomes of an object.
pub enum Next {
    /// Nothing.
    Same,
    /// It is to be this.
    Put(Value, Home),
    /// It is to be gone.
    Remove,
}

impl State {
    fn tell(&mut self, told: Told) {
        self.told.push_back(told);
        if self.told.len() > REMEMBERED
            && let Some(forgotten) = self.told.pop_front()
        {
            self.floor = forgotten.version;
        }
    }
}

/// With all that an API server adds.
fn stamped(mut object: Value, key: &Key, version: u64) -> Value {
    let named = key.kind.named();
    if let Value::Object(fields) = &mut object {
        fields.insert("apiVersion".to_owned(), json!(named.api_version));
        fields.insert("kind".to_owned(), json!(named.kind));
        let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(metadata) = metadata {
            metadata.insert("name".to_owned(), json!(key.name));
            if named.namespaced {
                metadata.insert("namespace".to_owned(), json!(key.namespace));
            }
            metadata.insert("resourceVersion".to_owned(), json!(version.to_string()));
            metadata.entry("uid").or_insert_with(|| json!(uid()));
            metadata.entry("creationTimestamp").or_insert_with(|| json!(format!("{:.0}", Timestamp::now())));
        }
    }
    object
}

/// As random as an API server's.
fn uid() -> String {
    let drawn: [u8; 16] = rand::random();
    let mut number = u128::from_be_bytes(drawn);
    number = number & !(0xf000 << 64) | (0x4000 << 64);
    number = number & !(0xc000 << 48) | (0x8000 << 48);
    let hex = format!("{number:032x}");
    let part = |from, to| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// The version that it was written at.
pub fn version(object: &Value) -> Option<u64> {
    object.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}

/// Reads one object's file.
pub fn read(path: &Path) -> Result<Value, WriteError> {
    let failed = |cause| WriteError::File { path: path.to_owned(), cause };
    let text = fs::read_to_string(path).map_err(failed)?;
    let object: Value = text::read(&text).map_err(|error| {
        failed(io::Error::other(format!(
            "{error}; the operator writes it and nobody else: restore it from a backup, and do not remove it while an \
             instance may stand that it speaks of"
        )))
    })?;
    match object.is_object() {
        true => Ok(object),
        false => Err(failed(io::Error::other("is no object; restore it from a backup"))),
    }
}

fn children(folder: &Path) -> Result<Vec<PathBuf>, WriteError> {
    let failed = |cause| WriteError::File { path: folder.to_owned(), cause };
    let listed = match fs::read_dir(folder) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut paths =
        listed.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path) -> Objects {
        Objects::open(folder, Lock::take(folder).unwrap()).unwrap()
    }

    fn key(name: &str) -> Key {
        Key::new(Kind::Proxy, "default", name)
    }

    fn put(objects: &Objects, name: &str, object: Value) -> Value {
        objects.update(&key(name), |_| (Next::Put(object, Home::Status), ())).unwrap().0.unwrap()
    }

    #[test]
    fn what_was_written_is_there_after_a_restart_and_later_versions_are_higher() {
        let dir = tempfile::tempdir().unwrap();
        let first = open(dir.path());
        let written =
            put(&first, "web", json!({ "spec": { "provider": "a", "text": "no: \n 0123 \u{1f600}" } }));
        drop(first);
        let again = open(dir.path());
        assert_eq!(again.get(&key("web")).unwrap(), written);
        let next = put(&again, "web", written.clone());
        assert!(version(&next) > version(&written));
        assert_eq!(next.pointer("/metadata/uid"), written.pointer("/metadata/uid"));
    }

    #[test]
    fn a_write_that_fails_changes_nothing_for_anybody() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a");
        fs::create_dir(&folder).unwrap();
        let objects = open(&folder);
        let written = put(&objects, "web", json!({ "spec": { "provider": "a" } }));
        fs::rename(&folder, dir.path().join("b")).unwrap();
        let failed = objects.update(&key("web"), |_| (Next::Put(json!({ "spec": {} }), Home::Status), ()));
        let failed = failed.unwrap_err().to_string();
        assert!(failed.contains("is not there any more"), "{failed}");
        assert_eq!(objects.get(&key("web")).unwrap(), written);
        assert!(objects.since(version(&written).unwrap()).unwrap().is_empty());
    }

    #[test]
    fn a_document_of_somebodys_is_known_and_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let objects = open(dir.path());
        let secret = Key::new(Kind::Secret, "default", "token");
        objects.update(&secret, |_| (Next::Put(json!({ "data": {} }), Home::Document), ())).unwrap();
        assert!(objects.get(&secret).is_some());
        drop(objects);
        assert!(open(dir.path()).get(&secret).is_none());
    }

    #[test]
    fn a_broken_status_file_ends_the_start_and_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let objects = open(dir.path());
        put(&objects, "web", json!({}));
        drop(objects);
        let path = dir.path().join("proxies/default/web.yaml");
        fs::write(&path, "status: {").unwrap();
        let lock = Lock::take(dir.path()).unwrap();
        let Err(error) = Objects::open(dir.path(), lock) else { panic!("it passed") };
        assert!(error.to_string().contains("web.yaml"), "{error}");
    }

    #[test]
    fn a_watch_that_is_too_far_behind_is_told_so() {
        let dir = tempfile::tempdir().unwrap();
        let objects = open(dir.path());
        let token = Key::new(Kind::Secret, "default", "token");
        let (_, from) = objects.list(Kind::Secret, None);
        for _ in 0..=REMEMBERED {
            objects.update(&token, |_| (Next::Put(json!({}), Home::Document), ())).unwrap();
        }
        assert!(objects.since(from).is_none());
        let (_, now) = objects.list(Kind::Secret, None);
        assert_eq!(objects.since(now).unwrap().len(), 0);
        assert_eq!(objects.since(now - 3).unwrap().len(), 3);
    }

    #[test]
    fn a_uid_looks_as_others_do() {
        let uid = uid();
        assert_eq!(uid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&uid.as_bytes()[19]));
    }
}
