//! The providers for libvirt on real hosts behind a real sshd: the contract's suite, what goes wrong at a host, and
//! many machines at once. `run.sh` beside this makes the hosts, and says where they are.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod images;
#[cfg(test)]
mod lab;
#[cfg(test)]
mod suite;
