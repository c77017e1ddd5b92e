//! Why a call has no answer, and why a connection ended.

use std::{io, sync::Arc, time::Duration};

use crate::{
    fault::{ErrorCode, Fault},
    host::AuthMethod,
    xdr::{DecodeError, EncodeError},
};

/// Why a call has no answer.
///
/// Branch on the variant, and for [`Error::Libvirt`] on [`Fault::code`]; the texts are for people.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// libvirt refused, and says why.
    #[error("{call}: {fault}")]
    Libvirt {
        /// The procedure, as libvirt's API calls it.
        call: &'static str,
        /// What libvirt says.
        fault: Box<Fault>,
    },
    /// The connection ended before the answer came, or had ended before the call was made.
    #[error(
        "{call}: the connection to libvirt has ended: {cause}; {}; open another connection",
        if *.sent { "the call may have been carried out" } else { "the call was not sent" }
    )]
    Closed {
        /// The procedure.
        call: &'static str,
        /// What ended it; the same for all that waited.
        cause: Arc<Cause>,
        /// Whether any of the call may have reached libvirt.
        sent: bool,
    },
    /// The server lets nobody in without an authentication that this crate does not have.
    #[error(
        "libvirt asks for authentication ({}), which this client does not offer; let the user open the socket \
         by its group instead (auth_unix_rw = \"none\" in libvirtd.conf)",
        list(.offered)
    )]
    Authentication {
        /// What it would take.
        offered: Vec<AuthMethod>,
    },
    /// An argument has no form on the wire. Nothing was sent.
    #[error("{call}: an argument can't be sent: {why}")]
    Argument {
        /// The procedure.
        call: &'static str,
        /// What is wrong.
        why: EncodeError,
    },
    /// The answer is not what the protocol has for this procedure. Other calls go on.
    #[error("{call}: libvirt's answer can't be read: {why}; is the server newer than this client by far?")]
    Answer {
        /// The procedure.
        call: &'static str,
        /// What is wrong.
        why: DecodeError,
    },
    /// A stream did not end as it should.
    #[error("{call}: {why}")]
    Stream {
        /// The procedure that opened it.
        call: &'static str,
        /// How.
        why: StreamError,
    },
}

/// How a stream went wrong, on either side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// More was to be sent than was declared. None of the surplus was sent: some servers hang on it.
    #[error("{given} bytes were given for a stream of {declared}; the surplus was not sent")]
    Overrun {
        /// What the call declared.
        declared: u64,
        /// What would have been sent.
        given: u64,
    },
    /// Less was sent than declared. The stream was given up: libvirt would have taken it as complete.
    #[error("the stream was to end after {sent} of {declared} bytes, and was given up")]
    Underrun {
        /// What the call declared.
        declared: u64,
        /// What was sent.
        sent: u64,
    },
    /// The server sends more than was asked for. The stream was given up.
    #[error("the server sent more than the {asked} bytes that were asked for")]
    Excess {
        /// What the call asked for.
        asked: u64,
    },
    /// Nobody took what came, for so long that other calls on this connection would have suffered. The stream
    /// was given up.
    #[error("nobody read the stream for {waited:?} while its buffer was full, and it was given up")]
    Stalled {
        /// How long it was waited.
        waited: Duration,
    },
    /// The server sent a hole, which was not asked for. The stream was given up.
    #[error("the server sent a hole in a stream that is not sparse")]
    Hole,
    /// The server ended the stream before its end.
    #[error("the server ended the stream before it was complete")]
    Ended,
    /// It is over: it was finished, given up, or had failed before.
    #[error("the stream is over")]
    Over,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// [`Connection::close`](crate::Connection::close).
    #[error("it was closed here")]
    Local,
    /// The runtime that served it was shut down.
    #[error("the task that served it was stopped")]
    Stopped,
    /// The other end closed it.
    #[error("the server closed it{}", if *.within_packet { " in the middle of a packet" } else { "" })]
    Eof {
        /// Whether a packet was cut in two.
        within_packet: bool,
    },
    /// Reading or writing failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Nothing came for too long, not even answers to pings.
    #[error("nothing came from the server for {quiet:?}, and it answered no ping")]
    Quiet {
        /// How long.
        quiet: Duration,
    },
    /// The server broke the protocol.
    #[error("the server broke the protocol: {0}")]
    Violation(#[from] Violation),
}

/// How a server broke the protocol. After any of these nothing that it sends can be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// No packet has such a length, or it is over
    /// [`Options::max_packet`](crate::Options::max_packet).
    #[error("a packet of {length} bytes")]
    Length {
        /// What it claims.
        length: u32,
    },
    /// A packet of an unknown kind, or of one that no server sends.
    #[error("a packet of kind {kind}")]
    Kind {
        /// Its number.
        kind: u32,
    },
    /// A status that does not exist, or not for this kind of packet.
    #[error("a packet of status {status}")]
    Status {
        /// Its number.
        status: u32,
    },
    /// An answer to what was never asked.
    #[error("an answer to call {serial}, which was not made")]
    Serial {
        /// Its serial.
        serial: u32,
    },
    /// An answer that is not of the procedure that was called.
    #[error(
        "call {serial} was of procedure {called}, its answer is of procedure {answered} of program {program:#x} \
         version {version}"
    )]
    Procedure {
        /// The call.
        serial: u32,
        /// What was called.
        called: i32,
        /// What was answered.
        answered: i32,
        /// The answer's program.
        program: u32,
        /// The answer's version.
        version: u32,
    },
    /// A stream's packet for a call that opens none, or whole megabytes before the call is answered.
    #[error("a stream's packet for call {serial}, which has no stream")]
    NoStream {
        /// The call.
        serial: u32,
    },
    /// Data after the end of a stream, or in a stream that goes the other way.
    #[error("data for stream {serial}, which takes none")]
    Data {
        /// The call that opened it.
        serial: u32,
    },
    /// Streams are opened, given up, and the calls that open them never answered.
    #[error("{unanswered} calls that open a stream were given up, and none was answered")]
    Unanswered {
        /// How many.
        unanswered: usize,
    },
}

impl Error {
    /// What libvirt says, if it was libvirt that refused.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Libvirt { fault, .. } => Some(fault),
            Self::Closed { .. }
            | Self::Authentication { .. }
            | Self::Argument { .. }
            | Self::Answer { .. }
            | Self::Stream { .. } => None,
        }
    }

    /// libvirt's code, if it was libvirt that refused.
    pub fn code(&self) -> Option<ErrorCode> {
        self.fault().map(|fault| fault.code)
    }

    /// Whether the call may have reached libvirt without its outcome being known.
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::Closed { sent, .. } => *sent,
            Self::Answer { .. } => true,
            Self::Libvirt { .. }
            | Self::Authentication { .. }
            | Self::Argument { .. }
            | Self::Stream { .. } => false,
        }
    }
}

fn list(methods: &[AuthMethod]) -> String {
    if methods.is_empty() {
        return "of no kind that it names".into();
    }
    let names: Vec<_> = methods.iter().map(ToString::to_string).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::tests::no_domain;

    #[test]
    fn an_error_names_the_call_the_cause_and_the_way_out() {
        let error = Error::Libvirt { call: "virDomainLookupByName", fault: Box::new(no_domain()) };
        assert_eq!(
            error.to_string(),
            "virDomainLookupByName: Domain not found: no domain with matching name 'x' (code 42 NO_DOMAIN, \
             domain 10 QEMU)"
        );
        let error = Error::Closed {
            call: "virDomainCreate",
            cause: Arc::new(Cause::Eof { within_packet: true }),
            sent: true,
        };
        assert_eq!(
            error.to_string(),
            "virDomainCreate: the connection to libvirt has ended: the server closed it in the middle of a packet; \
             the call may have been carried out; open another connection"
        );
        let error = Error::Authentication { offered: vec![AuthMethod::Polkit, AuthMethod::Unknown(9)] };
        assert!(error.to_string().contains("(polkit, number 9)"), "{error}");
    }

    #[test]
    fn only_an_answer_that_is_missing_or_unreadable_leaves_the_outcome_open() {
        let cause = Arc::new(Cause::Local);
        assert!(Error::Closed { call: "x", cause: cause.clone(), sent: true }.outcome_unknown());
        assert!(!Error::Closed { call: "x", cause, sent: false }.outcome_unknown());
        assert!(!Error::Libvirt { call: "x", fault: Box::new(no_domain()) }.outcome_unknown());
    }
}
