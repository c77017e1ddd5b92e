//! What an answer of the API says, whatever server of the cluster gave it.

use provider_sdk::{Error, http::Response, reason};
use serde_json::Value;

use crate::phrases::{self, Meaning};

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status; 595 to 599 are the proxying node's own.
    pub status: u16,
    /// All that was said, parameter by parameter where parameters were at fault.
    pub message: String,
}

/// The `data` of an answer, or why there is none.
pub fn read(response: &Response) -> Result<Value, Refusal> {
    let body: Option<Value> = serde_json::from_slice(&response.body).ok();
    let refuse = |message: String| Refusal { status: response.status, message };
    if response.status == 200 {
        let data = body.and_then(|mut body| body.get_mut("data").map(Value::take));
        return data.ok_or_else(|| refuse("the answer is no JSON with data".to_owned()));
    }
    let field = |name: &str| body.as_ref().and_then(|body| body.get(name));
    // Servers of before 2025 have no message, and some refusals no body: the status line has its first line.
    let said = field("message").and_then(Value::as_str).unwrap_or(&response.reason);
    let mut message = said.trim().to_owned();
    for (name, text) in field("errors").and_then(Value::as_object).into_iter().flatten() {
        message.push_str(&format!(" {name}: {}", text.as_str().unwrap_or_default().trim()));
    }
    Err(refuse(message))
}

impl Refusal {
    /// What its sentence means. Only a 500 is told apart by its text.
    pub fn meaning(&self) -> Option<Meaning> {
        (self.status == 500).then(|| phrases::meaning(&self.message)).flatten()
    }

    /// As a failure of `what` ("clone of template 9000"), where the caller has no better use for it.
    ///
    /// A machine that is missing is transient here: only a caller that looked at the whole cluster may
    /// say that it is gone.
    pub fn error(&self, what: &str) -> Error {
        let Self { status, message } = self;
        let told = format!("{what}: Proxmox VE answered {status}: {message}");
        match status {
            401 => Error::transient(
                reason::UNAUTHORIZED,
                format!("{told}; check that the token exists, is enabled and has not expired"),
            ),
            403 if message.contains("(pool '") => said(Some(Meaning::NoPool), told),
            403 => Error::permanent(
                reason::FORBIDDEN,
                format!("{told}; give the token that privilege, or name what it may use"),
            ),
            400 => Error::permanent(reason::CONFIG, told),
            595..=599 => Error::transient(reason::UNREACHABLE, format!("{told}; that node can't be reached")),
            _ => said(self.meaning(), told),
        }
    }
}

/// What a sentence means, as a failure: a refusal's, or a failed task's.
pub fn said(meaning: Option<Meaning>, told: String) -> Error {
    match meaning {
        Some(Meaning::Locked) => Error::transient(
            reason::BUSY,
            format!("{told}; if nothing works on it any more, run qm unlock on its node"),
        ),
        Some(Meaning::Contended | Meaning::NoQuorum | Meaning::Running) => {
            Error::transient(reason::BUSY, told)
        }
        Some(Meaning::Protected) => Error::permanent(
            "protected",
            format!("{told}; clear the machine's protection to let it be removed"),
        ),
        Some(Meaning::NoSpace) => {
            Error::quota(format!("{told}; make room on the storage, or name another one"))
        }
        Some(Meaning::NotShared) => Error::permanent(
            reason::PLACEMENT,
            format!(
                "{told}; give the image a template of that node (images.KEY.templates), or put the template on shared \
                 storage"
            ),
        ),
        Some(Meaning::Storage) => Error::permanent(
            "storage-not-found",
            format!("{told}; name a storage that this node has, and enable it"),
        ),
        Some(Meaning::NoPool) => {
            Error::permanent(reason::CONFIG, format!("{told}; create the resource pool, or name another"))
        }
        Some(
            Meaning::Missing
            | Meaning::Taken
            | Meaning::NotRunning
            | Meaning::AlreadyRunning
            | Meaning::AgentSilent
            | Meaning::AgentOff
            | Meaning::NoVolume,
        )
        | None => Error::transient(reason::BACKEND, told),
    }
}

#[cfg(test)]
mod tests {
    use provider_sdk::ErrorClass;
    use serde_json::json;

    use super::*;

    fn answer(status: u16, phrase: &str, body: &str) -> Response {
        let body = body.as_bytes().to_vec();
        Response { status, reason: phrase.to_owned(), body, ..Response::default() }
    }

    #[test]
    fn a_void_method_answers_null_and_that_is_success() {
        assert_eq!(read(&answer(200, "OK", r#"{"data":null}"#)), Ok(Value::Null));
        assert_eq!(read(&answer(200, "OK", r#"{"data":"100"}"#)), Ok(json!("100")));
        assert!(read(&answer(200, "OK", "<html>")).is_err());
    }

    #[test]
    fn the_reason_phrase_speaks_where_an_older_server_sends_no_message() {
        let old = read(&answer(500, "VM is locked (clone)", r#"{"data":null}"#)).unwrap_err();
        let new = read(&answer(500, "x", r#"{"data":null,"message":"VM is locked (clone)\n"}"#)).unwrap_err();
        assert_eq!(old, new);
        assert_eq!(old.meaning(), Some(Meaning::Locked));
        let error = old.error("start of 102");
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, reason::BUSY));
        assert!(error.message.contains("qm unlock"), "{error}");
    }

    #[test]
    fn a_refused_parameter_is_named() {
        let body = r#"{"data":null,"message":"Parameter verification failed.\n","errors":{"tags":"bad\n"}}"#;
        let refusal = read(&answer(400, "Parameter verification failed.", body)).unwrap_err();
        assert_eq!(refusal.message, "Parameter verification failed. tags: bad");
        assert_eq!(refusal.error("config of 102").class, ErrorClass::Permanent);
    }

    #[test]
    fn no_refusal_says_by_itself_that_a_machine_is_gone() {
        let text = "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist";
        let refusal = read(&answer(500, text, "")).unwrap_err();
        assert_eq!(refusal.meaning(), Some(Meaning::Missing));
        assert_eq!(refusal.error("status of 100").class, ErrorClass::Transient);
        let refusal = read(&answer(403, text, "")).unwrap_err();
        assert_eq!(refusal.meaning(), None, "the text counts with its status only");
    }

    #[test]
    fn a_node_that_the_proxying_one_can_t_reach_is_unreachable() {
        for (status, phrase) in [(595, "Connection refused"), (596, "Broken pipe")] {
            let error = read(&answer(status, phrase, "")).unwrap_err().error("status of 100");
            assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, reason::UNREACHABLE));
        }
    }
}
