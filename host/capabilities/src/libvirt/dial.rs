//! One way to a host's libvirt: TCP, SSH, the channel to the socket, libvirt's greeting. Each stage fails as itself.
//!
//! Key and known hosts are read each time. Nothing is sent to a host of which no key is known.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use egress_runtime::capability::{LibvirtFailure, LibvirtStage as Stage, Writes};
use libvirt_remote::Connection;
use russh::{
    AlgorithmKind, ChannelOpenFailure, Preferred,
    client::{self, AuthResult, Handle},
    keys::{self, PrivateKey, PrivateKeyWithHashAlg, PublicKeyOrCertificate},
};
use tokio::net::TcpStream;

use super::{
    failure,
    grant::HostGrant,
    known_hosts::{Distrust, KnownHosts},
};
use crate::{
    credentials::{NoCredential, Secrets},
    guarded::Guarded,
};

/// As much as a slow reader may leave lying before the host is asked to wait.
const WINDOW: u32 = 8 * 1024 * 1024;
/// No such file.
const ENOENT: i32 = 2;

/// A connection to libvirt, and what carries it.
pub(super) struct Line {
    pub(super) libvirt: Connection,
    _ssh: Handle<Trust>,
}

impl Line {
    pub(super) fn is_alive(&self) -> bool {
        self.libvirt.cause().is_none()
    }
}

/// How far a dial is, for whoever gives it up.
struct At(Mutex<Stage>);

impl At {
    fn set(&self, stage: Stage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn get(&self) -> Stage {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where and how.
pub(super) struct Dial<'a> {
    pub(super) host: &'a str,
    pub(super) grant: &'a HostGrant,
    pub(super) secrets: Option<&'a dyn Secrets>,
    pub(super) writes: Arc<dyn Writes>,
}

impl Dial<'_> {
    /// Within the grant's time for all of it.
    pub(super) async fn line(self) -> Result<Line, LibvirtFailure> {
        let (ms, at) = (self.grant.timeouts.connect_ms, At(Mutex::new(Stage::Credentials)));
        match tokio::time::timeout(Duration::from_millis(ms), self.stages(&at)).await {
            Ok(dialled) => dialled,
            Err(_) => Err(self.late(at.get(), ms)),
        }
    }

    /// A host that accepts a connection and says nothing can't be reached; one that let us in is merely slow.
    fn late(&self, at: Stage, ms: u64) -> LibvirtFailure {
        let (stage, doing) = match at {
            Stage::Credentials => (Stage::Credentials, "the credentials were not there"),
            Stage::Name => (Stage::Name, "its name did not resolve"),
            Stage::Connect => (Stage::Connect, "no connection came about"),
            Stage::Channel => (Stage::Timeout, "sshd did not open the channel"),
            Stage::Libvirt => (Stage::Timeout, "libvirt did not answer"),
            _ => (Stage::Handshake, "sshd did not finish the handshake"),
        };
        self.no(stage, &format!("{doing} within {ms} ms"))
    }

    fn no(&self, stage: Stage, why: &str) -> LibvirtFailure {
        let HostGrant { address, port, .. } = self.grant;
        failure::plain(stage, format!("host {} ({address}, port {port}): {why}", self.host))
    }

    fn no_credential(&self, no: NoCredential) -> LibvirtFailure {
        let errno = if no.missing { ENOENT } else { 0 };
        LibvirtFailure {
            errno,
            ..failure::plain(Stage::Credentials, format!("host {}: {}", self.host, no.message))
        }
    }

    async fn stages(&self, at: &At) -> Result<Line, LibvirtFailure> {
        let key = self.key().await?;
        let known = self.known_hosts().await?;
        let HostGrant { address, port, user, .. } = self.grant;
        let preferred = self.preferred(known.as_ref())?;

        at.set(Stage::Name);
        let found = tokio::net::lookup_host((address.as_str(), *port)).await;
        let found: Vec<_> = found
            .map_err(|error| self.no(Stage::Name, &format!("the name does not resolve: {error}")))?
            .collect();

        at.set(Stage::Connect);
        let stream = TcpStream::connect(found.as_slice()).await;
        let stream = stream.map_err(|error| self.no(Stage::Connect, &format!("no connection: {error}")))?;
        // Every call is a small packet, and its answer is waited for.
        let _ = stream.set_nodelay(true);
        let stream = Guarded { inner: stream, writes: Arc::clone(&self.writes) };

        at.set(Stage::Handshake);
        let config =
            client::Config { window_size: WINDOW, nodelay: true, preferred, ..client::Config::default() };
        let trust = Trust { known, place: self.known_place(), address: address.clone(), port: *port };
        let ssh = client::connect_stream(Arc::new(config), stream, trust).await;
        let mut ssh = ssh.map_err(|broken| self.of_handshake(broken))?;

        at.set(Stage::Authentication);
        self.authenticate(&mut ssh, user, key).await?;

        at.set(Stage::Channel);
        let channel = ssh.channel_open_direct_streamlocal(self.grant.socket.as_str()).await;
        let channel = channel.map_err(|error| self.of_channel(&error))?;

        at.set(Stage::Libvirt);
        let opened = Connection::open(channel.into_stream(), &self.grant.uri).await;
        let libvirt = opened.map_err(|error| failure::of_call(self.host, &error))?;
        Ok(Line { libvirt, _ssh: ssh })
    }

    async fn key(&self) -> Result<PrivateKey, LibvirtFailure> {
        let text = self.grant.key.read(self.secrets).await.map_err(|no| self.no_credential(no))?;
        // An encrypted one of another's making would be computed on for long.
        let decoded = tokio::task::spawn_blocking(move || keys::decode_secret_key(&text, None)).await;
        let why = match decoded {
            Ok(Ok(key)) if !key.is_encrypted() => return Ok(key),
            Ok(Ok(_) | Err(keys::Error::KeyIsEncrypted)) => "the key has a passphrase; give one without",
            // Its words may quote the key.
            _ => "is no private key that can be read; give one in OpenSSH's or PEM form",
        };
        let message = format!("{}: {why}", self.grant.key.place());
        Err(self.no_credential(NoCredential { message, missing: false }))
    }

    async fn known_hosts(&self) -> Result<Option<KnownHosts>, LibvirtFailure> {
        let Some(place) = &self.grant.known_hosts else { return Ok(None) };
        let text = place.read(self.secrets).await.map_err(|no| self.no_credential(no))?;
        KnownHosts::parse(&text).map(Some).map_err(|malformed| {
            let message = format!("{}: {malformed}; mend it", place.place());
            self.no_credential(NoCredential { message, missing: false })
        })
    }

    fn known_place(&self) -> String {
        self.grant.known_hosts.as_ref().map(crate::CredentialRef::place).unwrap_or_default()
    }

    fn preferred(&self, known: Option<&KnownHosts>) -> Result<Preferred, LibvirtFailure> {
        let Some(known) = known else { return Ok(Preferred::default()) };
        let algorithms = known.algorithms(&self.grant.address, self.grant.port);
        if algorithms.is_empty() {
            let why = format!("{} {}; add it there", self.known_place(), Distrust::Unknown);
            return Err(self.no(Stage::HostKey, &why));
        }
        Ok(Preferred { key: algorithms.into(), ..Preferred::default() })
    }

    fn of_handshake(&self, broken: Broken) -> LibvirtFailure {
        match broken {
            Broken::HostKey(why) => self.no(Stage::HostKey, &why),
            Broken::Ssh(russh::Error::NoCommonAlgo { kind: AlgorithmKind::Key, .. }) => self.no(
                Stage::HostKey,
                &format!(
                    "has no key of a type that {} has for it; add one of its own there",
                    self.known_place()
                ),
            ),
            Broken::Ssh(error) => self.no(Stage::Handshake, &format!("no SSH: {error}")),
        }
    }

    async fn authenticate(
        &self,
        ssh: &mut Handle<Trust>,
        user: &str,
        key: PrivateKey,
    ) -> Result<(), LibvirtFailure> {
        let hash = match key.algorithm() {
            keys::Algorithm::Rsa { .. } => match ssh.best_supported_rsa_hash().await {
                Ok(Some(hash)) => hash,
                _ => Some(keys::HashAlg::Sha512),
            },
            _ => None,
        };
        let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
        let why = match ssh.authenticate_publickey(user, key).await {
            Ok(AuthResult::Success) => return Ok(()),
            Ok(AuthResult::Failure { partial_success: true, .. }) => {
                "sshd takes the key and wants more; let the key alone be enough".to_owned()
            }
            Ok(AuthResult::Failure { .. }) => format!(
                "sshd does not take the key of {} for user {user}; add its public half to the user's authorized_keys",
                self.grant.key.place()
            ),
            Err(error) => format!("sshd broke off while user {user} logged in: {error}"),
        };
        Err(self.no(Stage::Authentication, &why))
    }

    fn of_channel(&self, error: &russh::Error) -> LibvirtFailure {
        let (socket, user) = (&self.grant.socket, &self.grant.user);
        let why = match error {
            russh::Error::ChannelOpenFailure(ChannelOpenFailure::AdministrativelyProhibited) => format!(
                "sshd forwards no sockets; set AllowStreamLocalForwarding yes there, at least for user {user}"
            ),
            russh::Error::ChannelOpenFailure(_) => format!(
                "sshd does not open {socket} for user {user}; is libvirt up, the user in the group libvirt, and \
                 AllowStreamLocalForwarding not turned off?"
            ),
            other => format!("no channel to {socket}: {other}"),
        };
        self.no(Stage::Channel, &why)
    }
}

/// Whom a handshake trusts.
pub(super) struct Trust {
    /// None trusts anybody.
    known: Option<KnownHosts>,
    place: String,
    address: String,
    port: u16,
}

pub(super) enum Broken {
    Ssh(russh::Error),
    HostKey(String),
}

impl std::fmt::Debug for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ssh(error) => write!(f, "{error}"),
            Self::HostKey(why) => f.write_str(why),
        }
    }
}

impl From<russh::Error> for Broken {
    fn from(error: russh::Error) -> Self {
        Self::Ssh(error)
    }
}

impl client::Handler for Trust {
    type Error = Broken;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Broken> {
        let Some(known) = &self.known else { return Ok(true) };
        let distrust = match shown {
            PublicKeyOrCertificate::PublicKey { key, .. } => match known.check(&self.address, self.port, key)
            {
                Ok(()) => return Ok(true),
                Err(distrust) => distrust.to_string(),
            },
            PublicKeyOrCertificate::Certificate(_) => "trusts no certificates".to_owned(),
        };
        Err(Broken::HostKey(format!(
            "it is not the host that is known: {} {distrust}; if the host was set up anew, put its new key there",
            self.place
        )))
    }
}
