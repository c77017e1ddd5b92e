//! The client against a server that plays a script.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod keepalive;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod server;
#[cfg(test)]
mod streams;
