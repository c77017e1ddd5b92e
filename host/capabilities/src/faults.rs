//! Gathers everything that is wrong with a grant, each with its path.

use egress_contract::Fault;

#[derive(Default)]
pub(crate) struct Faults(pub(crate) Vec<Fault>);

impl Faults {
    pub(crate) fn add(&mut self, path: &str, message: &str) {
        self.0.push(Fault { path: path.to_owned(), message: message.to_owned() });
    }
}
