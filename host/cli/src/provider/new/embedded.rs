//! The files that the build script found.

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
