//! The directory that is run: opened by one process, and followed as its files change.

use std::{
    collections::BTreeMap,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    documents::Assumed,
    files::{self, Readers},
    kinds::Kind,
    lock::{Lock, LockError},
    objects::{Home, Key, Next, Objects, WriteError},
    plan::{self, FILE, Kept, Plan},
    requests,
    scan::Scan,
    server, text,
};

/// The operator's own folder in it. Hidden, so that `rm *.yaml` takes no memory along and `kubectl apply -f` reads none.
pub const STATUS: &str = ".status";
/// What is wrong in which file, and what is asked.
pub const NOTES: &str = "notes.yaml";
/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// What goes within this time counts as gone at once: not all that removes many does so in one look.
const AT_ONCE: Duration = Duration::from_secs(5);
/// How often the same failure is told.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// On the namespace that stands for the directory: what a copy of it has not.
const INODE: &str = "egressproxies.dev/inode";
/// What was applied last of a document that the operator may change as well.
const APPLIED: &str = "egressproxies.dev/applied";
/// Whose objects the operator's own are.
const DEFINITION: &str = "proxies.egressproxies.dev";

/// Why a directory is not run.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is not there, or is no directory.
    #[error("{}: {cause}; give a directory that is there", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Nothing can be kept in it.
    #[error(
        "{}: {cause}; the operator keeps there what it made, and must be able to write there: give it a directory of its \
         own user's", path.display()
    )]
    Unwritable {
        /// The operator's folder.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Somebody else runs it.
    #[error("{} is run by another operator: {holder}; stop that one first", path.display())]
    Held {
        /// The directory.
        path: PathBuf,
        /// Who.
        holder: String,
    },
    /// What is kept there can't be used.
    #[error(transparent)]
    Kept(#[from] WriteError),
    /// It was made elsewhere.
    #[error(
        "{} was copied or restored: what stands in it belongs to another directory. If that one is gone for good, take the \
         line {INODE} out of {}, and this one goes on in its place. If it is still run, both would remove each other's \
         instances: remove {} here, and a new installation begins",
        folder.display(), file.display(), folder.display()
    )]
    Copied {
        /// The operator's folder.
        folder: PathBuf,
        /// Where it is bound.
        file: PathBuf,
    },
}

impl OpenError {
    /// Whether somebody else has it.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. })
    }
}

/// See the module.
pub struct Directory {
    path: PathBuf,
    assumed: Assumed,
    objects: Arc<Objects>,
    scan: Scan,
    /// When Proxies were removed because they are in no file.
    lately: Vec<Instant>,
    notes: Vec<String>,
    /// Those that stand in their file.
    shown: Option<Vec<String>>,
    /// What can't be done now, and when it was told.
    failing: Option<(String, Instant)>,
}

impl Directory {
    /// Takes the directory, reads what is kept and all documents. Blocks for a moment.
    pub fn open(path: &Path, namespace: &str, providers: &str) -> Result<Self, OpenError> {
        let unreadable = |cause| OpenError::Unreadable { path: path.to_owned(), cause };
        std::fs::read_dir(path).map_err(unreadable)?;
        let folder = path.join(STATUS);
        let unwritable = |cause| OpenError::Unwritable { path: folder.clone(), cause };
        // A spec may hold user-data, and its file may be one that others can't read.
        files::make_folder(&folder, Readers::Owner).map_err(unwritable)?;
        let lock = Lock::take(&folder).map_err(|error| match error {
            LockError::Held { holder } => OpenError::Held { path: path.to_owned(), holder },
            LockError::Unusable { path, cause } => OpenError::Unwritable { path, cause },
        })?;
        let objects = Objects::open(&folder, lock)?;
        bind(&objects, &folder)?;
        let assumed = Assumed { namespace: namespace.to_owned(), providers: providers.to_owned() };
        let mut directory = Self {
            path: path.to_owned(),
            assumed,
            objects: Arc::new(objects),
            scan: Scan::default(),
            lately: Vec::new(),
            notes: Vec::new(),
            shown: None,
            failing: None,
        };
        directory.scan.look(path, &directory.assumed).map_err(unreadable)?;
        std::thread::sleep(LOOK);
        directory.look();
        Ok(directory)
    }

    /// What the operator talks to.
    pub fn client(&self) -> kube::Client {
        server::client(Arc::clone(&self.objects), &self.assumed.namespace)
    }

    /// What is wrong in which file, and what is asked.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Where providers ConfigMaps stand that are not the one that is used: who copies files out of a cluster keeps their
    /// namespace.
    pub fn misplaced(&self) -> Vec<(String, String)> {
        let (found, _) = self.objects.list(Kind::ConfigMap, None);
        let named = found.into_iter().map(|(key, _)| key).filter(|key| key.name == self.assumed.providers);
        let others = named.filter(|key| key.namespace != self.assumed.namespace);
        others.map(|key| (key.namespace, key.name)).collect()
    }

    /// Follows the files until `stop` is cancelled.
    pub async fn keep(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            let looked = tokio::task::spawn_blocking(move || {
                self.look();
                self
            });
            match looked.await {
                Ok(back) => self = back,
                Err(error) => {
                    warn!(%error, "the look at the directory broke down; this is a fault of the operator");
                    return;
                }
            }
        }
    }

    /// One look, and what follows from it.
    pub(crate) fn look(&mut self) {
        if !self.objects.stands() {
            let folder = self.objects.folder().display();
            let message = format!(
                "{folder} is not there any more: it was removed, unmounted or replaced; nothing is done until it is back"
            );
            return self.fails(message);
        }
        if let Err(error) = self.scan.look(&self.path, &self.assumed) {
            let message = format!(
                "{}: {error}; what stands there is not known, and stays as it is",
                self.path.display()
            );
            return self.fails(message);
        }
        match self.follow() {
            Ok(()) => {
                if self.failing.take().is_some() {
                    info!(directory = %self.path.display(), "the directory can be used again");
                }
            }
            Err(error) => self.fails(format!("{error}; it is tried again")),
        }
    }

    fn fails(&mut self, message: String) {
        let news =
            self.failing.as_ref().is_none_or(|(told, at)| *told != message || at.elapsed() > TELL_AGAIN);
        if news {
            warn!(directory = %self.path.display(), why = message, "the directory can't be followed");
            self.failing = Some((message, Instant::now()));
        }
    }

    fn follow(&mut self) -> Result<(), WriteError> {
        requests::answer(&self.objects, |file| self.scan.rests(file))?;
        let (proxies, _) = self.objects.list(Kind::Proxy, None);
        let kept = proxies.into_iter().map(|(key, object)| {
            let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
            (key, Kept { file: file_of(&object), deleting })
        });
        self.lately.retain(|at| at.elapsed() < AT_ONCE);
        let (files, rested, lately) = (self.scan.files(), self.scan.has_rested(), self.lately.len());
        let plan = plan::plan(files, rested, &kept.collect(), &self.documents(), lately);
        self.apply(&plan)?;
        self.lately.extend(plan.removed.iter().map(|_| Instant::now()));
        if plan.notes != self.notes {
            for note in plan.notes.iter().filter(|note| !self.notes.contains(note)) {
                warn!(note, "a file of the directory");
            }
            self.notes = plan.notes;
        }
        if self.shown.as_ref() != Some(&self.notes) {
            let path = self.objects.folder().join(NOTES);
            let content = text::write(&json!(self.notes)).unwrap_or_default();
            let written = files::replace(&path, content.as_bytes(), Readers::Everybody);
            written.map_err(|cause| WriteError::File { path, cause })?;
            self.shown = Some(self.notes.clone());
        }
        Ok(())
    }

    /// Those that are known by their file alone.
    fn documents(&self) -> BTreeMap<Key, String> {
        let kinds = [Kind::ConfigMap, Kind::Secret].into_iter();
        let all = kinds.flat_map(|kind| self.objects.list(kind, None).0);
        let of_people = all.filter(|(key, _)| self.objects.home(key) == Some(Home::Document));
        of_people.map(|(key, object)| (key, file_of(&object))).collect()
    }

    fn apply(&self, plan: &Plan) -> Result<(), WriteError> {
        for (key, (file, document)) in &plan.wanted {
            match key.kind {
                Kind::Proxy => self.apply_proxy(key, file, document)?,
                Kind::ProviderHealth => self.apply_health(key, document)?,
                _ => self.apply_document(key, file, document)?,
            }
        }
        for key in &plan.removed {
            let (_, removed) = self.objects.update(key, |before| match before {
                Some(object) => (server::end(object), true),
                None => (Next::Same, false),
            })?;
            if removed {
                info!(proxy = %key, "its file is gone, and so it is to go");
            }
        }
        for key in &plan.forgotten {
            self.objects.update(key, |_| (Next::Remove, ()))?;
        }
        Ok(())
    }

    fn apply_proxy(&self, key: &Key, file: &str, document: &Value) -> Result<(), WriteError> {
        self.objects.update(key, |before| {
            let mut metadata = document.get("metadata").cloned().unwrap_or_else(|| json!({}));
            set(&mut metadata, &["annotations", FILE], json!(file));
            let spec = document.get("spec").cloned().unwrap_or_else(|| json!({}));
            let Some(before) = before else {
                let object = json!({ "metadata": metadata, "spec": spec });
                return (Next::Put(server::with_generation(object, 1), Home::Status), ());
            };
            let mut next = before.clone();
            for field in ["annotations", "labels"] {
                let wanted =
                    metadata.get(field).filter(|wanted| wanted.as_object().is_some_and(|w| !w.is_empty()));
                replace(&mut next, &["metadata", field], wanted.cloned());
            }
            // What `epo delete --abandon` said stands for as long as the Proxy does.
            if let Some(abandon) =
                before.pointer("/metadata/annotations").and_then(|all| all.get(requests::ABANDON))
            {
                set(&mut next, &["metadata", "annotations", requests::ABANDON], abandon.clone());
            }
            if before.get("spec") != Some(&spec) {
                let generation =
                    before.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
                replace(&mut next, &["spec"], Some(spec));
                next = server::with_generation(next, generation.saturating_add(1));
            }
            if next == *before { (Next::Same, ()) } else { (Next::Put(next, Home::Status), ()) }
        })?;
        Ok(())
    }

    /// The operator changes these as well: what a document says is taken up when the document changes, and not again.
    fn apply_health(&self, key: &Key, document: &Value) -> Result<(), WriteError> {
        let spec = document.get("spec").cloned().unwrap_or_else(|| json!({}));
        let applied = json!(spec.to_string());
        let annotations = document.pointer("/metadata/annotations").and_then(Value::as_object).cloned();
        self.objects.update(key, |before| {
            let known = before.and_then(|before| before.pointer("/metadata/annotations"));
            let mut wanted = annotations.unwrap_or_default();
            wanted.insert(APPLIED.to_owned(), applied);
            let has = |(key, value): (&String, &Value)| known.and_then(|known| known.get(key)) == Some(value);
            if wanted.iter().all(has) {
                return (Next::Same, ());
            }
            let mut next = before.cloned().unwrap_or_else(|| json!({ "metadata": {} }));
            for (key, value) in wanted {
                set(&mut next, &["metadata", "annotations", &key], value);
            }
            replace(&mut next, &["spec"], Some(spec));
            (Next::Put(next, Home::Status), ())
        })?;
        Ok(())
    }

    fn apply_document(&self, key: &Key, file: &str, document: &Value) -> Result<(), WriteError> {
        if self.objects.home(key) == Some(Home::Status) {
            // Such as the installation's identity, which nobody is to replace by hand.
            return Ok(());
        }
        self.objects.update(key, |before| {
            let mut next = document.clone();
            set(&mut next, &["metadata", "annotations", FILE], json!(file));
            let same = before.is_some_and(|before| {
                ["data", "binaryData"].iter().all(|field| before.get(field) == next.get(field))
                    && file_of(before) == file
            });
            if same { (Next::Same, ()) } else { (Next::Put(next, Home::Document), ()) }
        })?;
        Ok(())
    }
}

/// What stands for the directory: minted with it, and bound to it. A copy has another inode.
fn bind(objects: &Objects, folder: &Path) -> Result<(), OpenError> {
    let inode = std::fs::metadata(folder)
        .map_err(|cause| OpenError::Unwritable { path: folder.to_owned(), cause })?
        .ino()
        .to_string();
    let key = Key::new(Kind::Namespace, "", "kube-system");
    let (_, is_ours) = objects.update(&key, |before| {
        let bound = before.and_then(|before| before.pointer("/metadata/annotations")?.get(INODE)?.as_str());
        match (before, bound) {
            (Some(_), Some(bound)) => (Next::Same, bound == inode),
            (before, _) => {
                let mut next = before.cloned().unwrap_or_else(|| json!({ "metadata": {} }));
                set(&mut next, &["metadata", "annotations", INODE], json!(inode));
                (Next::Put(next, Home::Status), true)
            }
        }
    })?;
    if !is_ours {
        let file = folder.join("namespaces/kube-system.yaml");
        return Err(OpenError::Copied { folder: folder.to_owned(), file });
    }
    // Since when there can be Proxies here: as old as the directory, so that a memory that was lost is noticed.
    let made = objects.get(&key).and_then(|object| object.pointer("/metadata/creationTimestamp").cloned());
    let made = made.unwrap_or_else(|| json!(format!("{:.0}", Timestamp::now())));
    objects.update(&Key::new(Kind::Definition, "", DEFINITION), |_| {
        (Next::Put(json!({ "metadata": { "creationTimestamp": made } }), Home::Document), ())
    })?;
    Ok(())
}

/// The file that an object was read from.
pub fn file_of(object: &Value) -> String {
    let file = object.pointer("/metadata/annotations").and_then(|all| all.get(FILE)).and_then(Value::as_str);
    file.unwrap_or_default().to_owned()
}

/// Puts a value at a path, and mappings above it.
pub fn set(object: &mut Value, path: &[&str], value: Value) {
    replace(object, path, Some(value));
}

fn replace(object: &mut Value, path: &[&str], value: Option<Value>) {
    let [first, rest @ ..] = path else {
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    let Some(fields) = object.as_object_mut() else { return };
    match (rest, value) {
        ([], Some(value)) => {
            fields.insert((*first).to_owned(), value);
        }
        ([], None) => {
            fields.remove(*first);
        }
        (rest, value) => replace(fields.entry((*first).to_owned()).or_insert_with(|| json!({})), rest, value),
    }
}
