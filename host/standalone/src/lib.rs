//! The operator without a cluster: a directory that answers it as an API server would.
//!
//! People keep documents in the directory, the same that they would apply to a cluster. What an API server would keep
//! beside them (identity, status, finalizers, the request to delete) is kept in files of their own below `.status`, and
//! the operator reaches both through a client that ends in this process. So everything above that client is the same
//! code as on a cluster: the loops, the health of entries, holds, trials, the collector.

mod directory;
mod documents;
mod editing;
mod files;
mod kinds;
mod lock;
mod looking;
mod objects;
mod plan;
mod requests;
mod scan;
mod server;
mod text;

#[cfg(test)]
mod tests;

pub use directory::{Directory, OpenError};
pub use editing::{EditError, Ended, end};
pub use looking::{Look, LookError};
