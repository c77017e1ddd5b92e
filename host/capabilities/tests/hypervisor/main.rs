//! The capabilities on a real libvirt host behind a real sshd: `run.sh` beside this makes one, and says where it is.

#[cfg(test)]
mod dialling;
#[cfg(test)]
mod domains;
#[cfg(test)]
mod images;
#[cfg(test)]
mod lab;
#[cfg(test)]
mod transfers;
