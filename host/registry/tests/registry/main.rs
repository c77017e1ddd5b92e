//! The client at real sockets: a registry that works, and one that does whatever is wrong with one.

#[cfg(test)]
mod fake;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod logins;
#[cfg(test)]
mod usual;

#[cfg(test)]
mod asking {
    use std::time::Duration;

    use egress_registry::{About, Access, Client, Image, Login, Rights, Timeouts, artifact};

    use super::fake::{PASSWORD, USER};

    pub const MOST: u64 = 1024 * 1024;
    pub const COMPONENT: &[u8] = b"\0asm and so on";

    pub fn plainly() -> Access {
        Access { plain_http: true, ..Access::default() }
    }

    pub fn logged_in() -> Access {
        Access { login: Some(password(PASSWORD)), ..plainly() }
    }

    pub fn password(password: &str) -> Login {
        Login::Password { user: USER.to_owned(), password: password.to_owned() }
    }

    /// Gives up soon, for what would go on without end.
    pub fn impatient() -> Access {
        let timeouts = Timeouts { whole: Duration::from_millis(500), ..Timeouts::default() };
        Access { timeouts, ..plainly() }
    }

    pub fn image() -> Image {
        artifact(COMPONENT, &About::default())
    }

    pub fn pulling(image: &str, access: Access) -> Client {
        Client::new(image.parse().unwrap(), Rights::Pull, access).unwrap()
    }

    pub fn pushing(image: &str, access: Access) -> Client {
        Client::new(image.parse().unwrap(), Rights::Push, access).unwrap()
    }
}
