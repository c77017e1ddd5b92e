//! The suite on trial itself: that our own provider passes it, and that it finds what is broken.

#[cfg(test)]
mod kubernetes;
#[cfg(test)]
mod support;
