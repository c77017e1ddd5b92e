//! What the commands for registries share: as whom, whom they trust, and the way out of what goes wrong.

use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use egress_capabilities::transfer::address::Range;
use egress_registry::{
    Access, Client, DockerConfig, Kind, Login, NeedsHelper, Reference, RegistryError, Rights,
};
use serde::Deserialize;

use crate::failure::Failure;

/// No password is longer; a file may have been given by mistake.
const MOST_PASSWORD: u64 = 64 * 1024;

pub const LOGINS: &str = "\
Without --username the login is taken from $DOCKER_CONFIG/config.json or ~/.docker/config.json, as
docker, oras and wkg write it, and from the credential helper that it names; where it has none,
nobody's login is used.";

#[derive(clap::Args)]
pub struct RegistryArgs {
    /// As whom to log in [default: what the docker config says]
    #[arg(long, requires = "password_stdin")]
    username: Option<String>,
    /// Read the password from the standard input
    #[arg(long, requires = "username")]
    password_stdin: bool,
    /// Who signs for the registry, in PEM [default: whom the system trusts]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Speak HTTP without TLS: everybody on the way can read and change what is sent
    #[arg(long)]
    plain_http: bool,
    /// An address inside, or a range of them, that the registry may send to
    #[arg(long, value_name = "ADDRESS", value_parser = range)]
    inside: Vec<Range>,
}

fn range(text: &str) -> Result<Range, String> {
    text.parse().map_err(|()| "write 10.1.2.3 or 10.1.0.0/16".to_owned())
}

/// Opens registries as somebody said, one image at a time.
pub struct Registries {
    args: RegistryArgs,
    ca: Option<String>,
    password: Option<String>,
}

impl RegistryArgs {
    /// Reads what is to be read once.
    pub fn open(self) -> Result<Registries, Failure> {
        let read = |path: &PathBuf| std::fs::read_to_string(path).map_err(|error| Failure::read(path, error));
        let ca = self.ca.as_ref().map(read).transpose()?;
        let mut password = None;
        if self.password_stdin {
            let mut text = String::new();
            let read = std::io::stdin().lock().take(MOST_PASSWORD).read_to_string(&mut text);
            read.map_err(|error| Failure::read(Path::new("-"), error))?;
            password = Some(text.trim_end_matches(['\r', '\n']).to_owned());
        }
        Ok(Registries { args: self, ca, password })
    }
}

impl Registries {
    pub fn client(&self, image: &Reference, rights: Rights) -> Result<Client, Failure> {
        let access = Access {
            login: self.login(image)?,
            ca: self.ca.clone(),
            plain_http: self.args.plain_http,
            inside: self.args.inside.clone(),
            ..Access::default()
        };
        Client::new(image.clone(), rights, access).map_err(failure)
    }

    fn login(&self, image: &Reference) -> Result<Option<Login>, Failure> {
        if let (Some(user), Some(password)) = (&self.args.username, &self.password) {
            return Ok(Some(Login::Password { user: user.clone(), password: password.clone() }));
        }
        let Some(path) = docker_config() else { return Ok(None) };
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::read(&path, error)),
        };
        let broken = |error: &dyn std::fmt::Display| {
            let shown = path.display();
            Failure::Setup(format!("{shown}: {error}; log in again, or give --username and --password-stdin"))
        };
        let config = DockerConfig::read(&text).map_err(|error| broken(&error))?;
        match config.login(image).map_err(|error| broken(&error))? {
            None => Ok(None),
            Some(Ok(login)) => Ok(Some(login)),
            Some(Err(helper)) => from_helper(&helper, image).map_err(|why| broken(&why)),
        }
    }
}

fn docker_config() -> Option<PathBuf> {
    let folder = std::env::var_os("DOCKER_CONFIG").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = folder.or_else(|| std::env::home_dir().map(|home| home.join(".docker")));
    Some(folder?.join("config.json"))
}

/// Asks `docker-credential-NAME get`, as docker does. None where it knows no login.
fn from_helper(helper: &NeedsHelper, image: &Reference) -> Result<Option<Login>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Answer {
        username: String,
        secret: String,
    }
    let NeedsHelper(name) = helper;
    if name.contains(['/', '\\']) {
        return Err(format!(
            "the credential helper {name:?} is a path; name what stands behind docker-credential-"
        ));
    }
    let program = format!("docker-credential-{name}");
    let failed = |why: &dyn std::fmt::Display| format!("the login is kept by {program}, which {why}");
    let command = Command::new(&program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = command.map_err(|error| failed(&format!("did not start: {error}")))?;
    let registry = match image.registry() {
        "docker.io" => "https://index.docker.io/v1/",
        registry => registry,
    };
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends before it has read says why by its exit code.
        let _ = writeln!(stdin, "{registry}");
    }
    let output = child.wait_with_output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        // What it prints then is words, and these are the ones for that.
        let said = String::from_utf8_lossy(&output.stdout);
        return match said.contains("credentials not found") {
            true => Ok(None),
            false => {
                Err(failed(&format!("failed ({}); try: echo {registry} | {program} get", output.status)))
            }
        };
    }
    let answer: Answer =
        serde_json::from_slice(&output.stdout).map_err(|_| failed(&"printed something else than a login"))?;
    Ok(Some(match answer.username.as_str() {
        "<token>" => Login::Identity(answer.secret),
        _ => Login::Password { user: answer.username, password: answer.secret },
    }))
}

/// With the way out, in the words of a command line.
pub fn failure(error: RegistryError) -> Failure {
    let way_out = match error.kind {
        Kind::Unauthorized => {
            "log in with docker login, or give --username and --password-stdin; some registries say this of what \
             is not there, so check the name too"
        }
        Kind::Denied => "ask for that right, or log in as somebody who has it",
        Kind::NotFound => "check the name, or push it first",
        Kind::NoWasmLayer => "push a component there: epo provider push does it right",
        Kind::ManifestInvalid => "name an image that holds a component",
        Kind::DigestDiffers => {
            "something between here and there changes what is sent; ask who runs the registry"
        }
        Kind::TooLarge => "make it smaller (strip it, wasm-opt -Oz)",
        Kind::TlsTrust => "give who signs for it with --ca; a registry without TLS needs --plain-http",
        Kind::Unreachable => "check its name, its port and the way there, and try again",
        Kind::TooManyRequests => "wait a while; with a login more may be allowed",
        Kind::RegistryFailed => "see the registry's own log, and try again",
        Kind::RedirectRefused => "if that is meant, say --inside and the address",
    };
    Failure::Registry { error, way_out }
}
