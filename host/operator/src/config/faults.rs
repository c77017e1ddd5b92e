//! What is wrong with an entry, gathered while it is read.

use egress_contract::Fault;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Default)]
pub(super) struct Faults(pub(super) Vec<Fault>);

impl Faults {
    pub(super) fn add(&mut self, path: &str, message: impl ToString) {
        self.0.push(Fault { path: path.to_owned(), message: message.to_string() });
    }

    /// Faults whose paths begin below `path`.
    pub(super) fn extend(&mut self, path: &str, faults: Vec<Fault>) {
        for fault in faults {
            let below =
                if fault.path.is_empty() { path.to_owned() } else { format!("{path}.{}", fault.path) };
            self.add(&below, fault.message);
        }
    }

    /// The value's reading, its default where it is left out, or none and a fault.
    pub(super) fn read<T: DeserializeOwned + Default>(
        &mut self,
        path: &str,
        value: Option<Value>,
    ) -> Option<T> {
        let value = match value {
            None | Some(Value::Null) => return Some(T::default()),
            Some(value) => value,
        };
        match serde_path_to_error::deserialize(value) {
            Ok(read) => Some(read),
            Err(error) => {
                let below = match error.path().to_string() {
                    at if at == "." => path.to_owned(),
                    at => format!("{path}.{at}"),
                };
                self.add(&below, error.into_inner());
                None
            }
        }
    }
}
