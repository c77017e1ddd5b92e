//! Who wrote what (`metadata.managedFields`), and server-side apply on top of it.
//!
//! An apply owns exactly the fields that it names: what it named before and names no more goes, unless somebody
//! else wrote it, too. The capability always forces, so nobody keeps a field that an apply gives another value.

use serde_json::{Value, json};

use super::{
    fields::{self, Fields},
    json::{at, list, put, take, text},
    time::stamp,
};

/// One writer's fields.
#[derive(Clone, Debug)]
struct Entry {
    manager: String,
    operation: String,
    api_version: String,
    subresource: String,
    time: String,
    fields: Fields,
}

/// All writers of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Managers(Vec<Entry>);

/// Who writes, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer<'a> {
    pub(super) manager: &'a str,
    /// `Update`, `Apply`.
    pub(super) operation: &'static str,
    pub(super) api_version: &'a str,
    pub(super) subresource: &'a str,
    pub(super) now_ms: u64,
}

impl Managers {
    pub(super) fn of(object: &Value) -> Self {
        let entries = list(object, &["metadata", "managedFields"]).iter();
        Self(entries.map(Entry::read).collect())
    }

    /// An object that nobody is noted for was there before the first apply.
    fn begin(&mut self, writer: Writer<'_>, before: &Value) {
        let before = fields::stripped(before, writer.subresource);
        if self.0.is_empty() && before.as_object().is_some_and(|before| !before.is_empty()) {
            let first = Writer { manager: "before-first-apply", operation: "Update", ..writer };
            self.set(first, Fields::changed(&fields::zero(&before), &before).0);
        }
    }

    /// Notes what a write changed. Of an object that nobody is noted for, nothing is noted until it is applied.
    pub(super) fn written(&mut self, writer: Writer<'_>, before: &Value, after: &Value) {
        if self.0.is_empty() && !before.is_null() {
            return;
        }
        let strip = |object| fields::stripped(object, writer.subresource);
        let (before, after) = (strip(before), strip(after));
        let before = if before.is_null() { fields::zero(&after) } else { before };
        let (written, gone) = Fields::changed(&before, &after);
        if written.is_empty() && gone.is_empty() {
            return;
        }
        let lost = written.clone().with(&gone);
        for entry in self.0.iter_mut().filter(|entry| !entry.is(writer)) {
            entry.fields = std::mem::take(&mut entry.fields).without(&lost);
        }
        let own = self.own(writer).map(|entry| entry.fields.clone()).unwrap_or_default();
        self.set(writer, own.with(&written).without(&gone));
    }

    /// An applied object over what is there.
    pub(super) fn apply(&mut self, writer: Writer<'_>, before: &Value, applied: &Value) -> Value {
        let named = Fields::applied(&fields::stripped(applied, writer.subresource));
        self.begin(writer, before);
        let mut merged = before.clone();
        fields::merge(&mut merged, applied);
        let had = self.own(writer).map(|entry| entry.fields.clone()).unwrap_or_default();
        let others = self.0.iter().filter(|entry| !entry.is(writer));
        let kept = others.fold(named.clone(), |kept, entry| kept.with(&entry.fields.clone().with_ways()));
        had.without(&kept).take_from(&mut merged);
        self.set(writer, named);
        merged
    }

    /// Takes from all others what an apply gave another value.
    pub(super) fn applied(&mut self, writer: Writer<'_>, before: &Value, after: &Value) {
        let strip = |object| fields::stripped(object, writer.subresource);
        let (written, _) = Fields::changed(&strip(before), &strip(after));
        for entry in self.0.iter_mut().filter(|entry| !entry.is(writer)) {
            entry.fields = std::mem::take(&mut entry.fields).without(&written);
        }
        self.0.retain(|entry| !entry.fields.is_empty());
    }

    fn own(&self, writer: Writer<'_>) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.is(writer))
    }

    fn set(&mut self, writer: Writer<'_>, fields: Fields) {
        let time = stamp(writer.now_ms);
        match self.0.iter_mut().find(|entry| entry.is(writer)) {
            Some(entry) if entry.fields == fields => {}
            Some(entry) => {
                entry.fields = fields;
                entry.time = time;
            }
            None => self.0.push(Entry {
                manager: writer.manager.to_owned(),
                operation: writer.operation.to_owned(),
                api_version: writer.api_version.to_owned(),
                subresource: writer.subresource.to_owned(),
                time,
                fields,
            }),
        }
        self.0.retain(|entry| !entry.fields.is_empty());
    }

    /// Writes the entries into an object.
    pub(super) fn put_into(mut self, object: &mut Value) {
        let order = |entry: &Entry| {
            let Entry { operation, time, manager, api_version, subresource, .. } = entry;
            [operation, time, manager, api_version, subresource].map(String::clone)
        };
        self.0.sort_by_key(order);
        if self.0.is_empty() {
            take(object, &["metadata", "managedFields"]);
            return;
        }
        let entries: Vec<Value> = self.0.iter().map(Entry::write).collect();
        put(object, &["metadata", "managedFields"], entries);
    }
}

impl Entry {
    fn is(&self, writer: Writer<'_>) -> bool {
        (self.manager.as_str(), self.operation.as_str(), self.api_version.as_str(), self.subresource.as_str())
            == (writer.manager, writer.operation, writer.api_version, writer.subresource)
    }

    fn read(entry: &Value) -> Self {
        let of = |field: &str| text(entry, &[field]).to_owned();
        Self {
            manager: of("manager"),
            operation: of("operation"),
            api_version: of("apiVersion"),
            subresource: of("subresource"),
            time: of("time"),
            fields: at(entry, &["fieldsV1"]).map(Fields::from_json).unwrap_or_default(),
        }
    }

    fn write(&self) -> Value {
        let mut entry = json!({
            "manager": self.manager, "operation": self.operation, "apiVersion": self.api_version, "time": self.time,
            "fieldsType": "FieldsV1", "fieldsV1": self.fields.to_json(),
        });
        if !self.subresource.is_empty() {
            put(&mut entry, &["subresource"], self.subresource.clone());
        }
        entry
    }
}
