//! What a server answers when it refuses: its error, whole.
//!
//! Code and domain are numbers with names, not closed lists: a newer libvirt may know more.

use std::fmt;

use crate::{
    types::{Domain, Network},
    xdr::{Decode, DecodeError, Decoder, Encode, EncodeError, Encoder},
};

/// An error as libvirt reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What went wrong: the one thing to branch on.
    pub code: ErrorCode,
    /// Which part of libvirt says so.
    pub domain: ErrorDomain,
    /// How bad it is.
    pub level: ErrorLevel,
    /// For people.
    pub message: String,
    /// The message's template; on few errors an argument of its own.
    pub str1: Option<String>,
    /// The message's detail.
    pub str2: Option<String>,
    /// More detail; mostly absent.
    pub str3: Option<String>,
    /// The system's error number where the code is [`ErrorCode::SYSTEM_ERROR`], else mostly -1.
    pub int1: i32,
    /// Mostly -1.
    pub int2: i32,
}

impl Fault {
    /// The system's error number (28: no space, 2: no such file), where libvirt gave one.
    pub fn errno(&self) -> Option<i32> {
        (self.code == ErrorCode::SYSTEM_ERROR && self.int1 > 0).then_some(self.int1)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What libvirt quotes of an XML document comes in lines of its own.
        let mut lines = self.message.lines().map(str::trim_end).filter(|line| !line.is_empty());
        write!(f, "{}", lines.next().unwrap_or("no message"))?;
        lines.try_for_each(|line| write!(f, " | {line}"))?;
        write!(f, " (code {}, domain {})", self.code, self.domain)
    }
}

/// What the protocol writes after the level and what nobody needs: the objects that the error is about.
type About<T> = Option<T>;

impl Encode for Fault {
    fn encode(&self, to: &mut Encoder) -> Result<(), EncodeError> {
        (self.code.0, self.domain.0, Some(&self.message), self.level.0).encode(to)?;
        About::<Domain>::None.encode(to)?;
        (&self.str1, &self.str2, &self.str3, self.int1, self.int2).encode(to)?;
        About::<Network>::None.encode(to)
    }
}

impl Decode for Fault {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (code, domain, message, level) = Decode::decode(from)?;
        About::<Domain>::decode(from)?;
        let (str1, str2, str3, int1, int2) = Decode::decode(from)?;
        About::<Network>::decode(from)?;
        Ok(Self {
            code: ErrorCode(code),
            domain: ErrorDomain(domain),
            level: ErrorLevel(level),
            message: Option::<String>::unwrap_or_default(message),
            str1,
            str2,
            str3,
            int1,
            int2,
        })
    }
}

macro_rules! named {
    ($(#[$about:meta])* pub struct $type:ident { $($(#[$what:meta])* $name:ident = $number:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $type(pub i32);

        impl $type {
            $($(#[$what])* pub const $name: Self = Self($number);)*

            /// libvirt's name for it, where this crate knows one.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    Self(_) => None,
                }
            }
        }

        /// The number, and the name if it has one.
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{} {name}", self.0),
                    None => write!(f, "{}", self.0),
                }
            }
        }
    };
}

named! {
    /// libvirt's `virErrorNumber`.
    pub struct ErrorCode {
        /// Anything that has no code of its own.
        INTERNAL_ERROR = 1,
        /// The server lacks memory.
        NO_MEMORY = 2,
        /// The driver behind the connection can't do that.
        NO_SUPPORT = 3,
        /// No driver for this URI.
        NO_CONNECT = 5,
        /// The connection is none.
        INVALID_CONN = 6,
        /// The domain is none.
        INVALID_DOMAIN = 7,
        /// An argument, or a flag, is not allowed.
        INVALID_ARG = 8,
        /// It was tried and failed; also: a name or UUID is another's.
        OPERATION_FAILED = 9,
        /// The document has no name.
        NO_NAME = 21,
        /// The document lacks something, or has something wrong.
        XML_ERROR = 27,
        /// Such a domain exists.
        DOM_EXIST = 28,
        /// Not over a read-only connection.
        OPERATION_DENIED = 29,
        /// The document is no XML.
        XML_DETAIL = 35,
        /// The system said no; [`Fault::errno`] has its number.
        SYSTEM_ERROR = 38,
        /// The protocol itself: no such procedure, arguments that can't be read, not authenticated.
        RPC = 39,
        /// There is no such domain.
        NO_DOMAIN = 42,
        /// There is no such network.
        NO_NETWORK = 43,
        /// Authentication failed.
        AUTH_FAILED = 45,
        /// The pool is none.
        INVALID_STORAGE_POOL = 46,
        /// The volume is none.
        INVALID_STORAGE_VOL = 47,
        /// There is no such pool.
        NO_STORAGE_POOL = 49,
        /// There is no such volume.
        NO_STORAGE_VOL = 50,
        /// Not in this state: started twice, destroyed while off, a pool that is not active.
        OPERATION_INVALID = 55,
        /// The document asks for what this host has not.
        CONFIG_UNSUPPORTED = 67,
        /// It took too long at the server.
        OPERATION_TIMEOUT = 68,
        /// The stream is none.
        INVALID_STREAM = 73,
        /// An argument asks for what this domain has not, such as an agent.
        ARGUMENT_UNSUPPORTED = 74,
        /// It was given up.
        OPERATION_ABORTED = 78,
        /// Authentication was given up.
        AUTH_CANCELLED = 79,
        /// The domain has no metadata of that kind.
        NO_DOMAIN_METADATA = 80,
        /// A number does not fit.
        OVERFLOW = 82,
        /// This one can't do that.
        OPERATION_UNSUPPORTED = 84,
        /// The guest's agent is not there, or not yet.
        AGENT_UNRESPONSIVE = 86,
        /// Something else is at it.
        RESOURCE_BUSY = 87,
        /// The user may not do that.
        ACCESS_DENIED = 88,
        /// Such a volume exists.
        STORAGE_VOL_EXIST = 90,
        /// The document breaks the schema.
        XML_INVALID_SCHEMA = 92,
        /// Nobody is there to authenticate with.
        AUTH_UNAVAILABLE = 94,
        /// The agent answered something else than what was asked.
        AGENT_UNSYNCED = 97,
        /// The agent took too long.
        AGENT_COMMAND_TIMEOUT = 112,
        /// The agent refused.
        AGENT_COMMAND_FAILED = 113,
    }
}

named! {
    /// libvirt's `virErrorDomain`: which part of it says so.
    pub struct ErrorDomain {
        /// None in particular.
        NONE = 0,
        /// XML.
        XML = 5,
        /// Domains.
        DOM = 6,
        /// The protocol.
        RPC = 7,
        /// The QEMU driver.
        QEMU = 10,
        /// The test driver.
        TEST = 12,
        /// Storage.
        STORAGE = 18,
        /// Networks.
        NETWORK = 19,
        /// Domain documents.
        DOMAIN = 20,
        /// Streams.
        STREAMS = 38,
        /// URIs.
        URI = 45,
        /// Authentication.
        AUTH = 46,
        /// Polkit.
        POLKIT = 60,
    }
}

named! {
    /// libvirt's `virErrorLevel`.
    pub struct ErrorLevel {
        /// None.
        NONE = 0,
        /// A warning.
        WARNING = 1,
        /// An error.
        ERROR = 2,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn no_domain() -> Fault {
        Fault {
            code: ErrorCode::NO_DOMAIN,
            domain: ErrorDomain::QEMU,
            level: ErrorLevel::ERROR,
            message: "Domain not found: no domain with matching name 'x'".into(),
            str1: Some("Domain not found: %s".into()),
            str2: Some("no domain with matching name 'x'".into()),
            str3: None,
            int1: -1,
            int2: -1,
        }
    }

    #[test]
    fn it_prints_message_code_and_domain_with_their_names() {
        assert_eq!(
            no_domain().to_string(),
            "Domain not found: no domain with matching name 'x' (code 42 NO_DOMAIN, domain 10 QEMU)"
        );
        let odd =
            Fault { code: ErrorCode(4711), domain: ErrorDomain(99), message: String::new(), ..no_domain() };
        assert_eq!(odd.to_string(), "no message (code 4711, domain 99)");
    }

    #[test]
    fn a_message_of_several_lines_prints_as_one() {
        let fault = Fault { message: "at line 1: broken\n<domain>\n--------^\n".into(), ..no_domain() };
        assert!(fault.to_string().starts_with("at line 1: broken | <domain> | --------^ (code"));
    }

    #[test]
    fn the_systems_number_is_told_only_where_the_code_says_that_it_is_one() {
        let full = Fault { code: ErrorCode::SYSTEM_ERROR, int1: 28, ..no_domain() };
        assert_eq!(full.errno(), Some(28));
        assert_eq!(Fault { int1: 28, ..no_domain() }.errno(), None);
        assert_eq!(Fault { int1: -1, ..full }.errno(), None);
    }

    #[test]
    fn it_is_read_back_as_it_was_written() {
        let mut to = Encoder::new();
        no_domain().encode(&mut to).unwrap();
        assert_eq!(Decoder::whole::<Fault>(&to.finish()).unwrap(), no_domain());
    }
}
