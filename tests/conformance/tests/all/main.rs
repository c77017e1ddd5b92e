//! The suite on trial itself: that our own provider passes it, and that it finds what is broken.

#[cfg(test)]
mod bench;
#[cfg(test)]
mod documented;
#[cfg(test)]
mod gcp;
#[cfg(test)]
mod kubernetes;
#[cfg(test)]
mod libvirt;
#[cfg(test)]
mod libvirt_mutants;
#[cfg(test)]
mod machines;
#[cfg(test)]
mod mutants;
#[cfg(test)]
mod proxmox;
#[cfg(test)]
mod real;
#[cfg(test)]
mod support;
