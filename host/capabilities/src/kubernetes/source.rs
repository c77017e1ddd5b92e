//! Where a cluster's address and credentials come from, and the client that they make.
//!
//! The client is kept as long as the files behind it stay as they were, so that a rotated token or
//! certificate takes effect with the next call.

use std::{os::unix::fs::MetadataExt, path::PathBuf, sync::Arc, time::Duration};

use egress_runtime::capability::{Always, KubernetesFailure, Writes};
use http::HeaderValue;
use kube::{
    Client, Config,
    client::AuthError,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tokio::sync::{Mutex, OnceCell};

use super::{
    HomeCluster, failure,
    grant::{ClusterGrant, KubeconfigGrant},
    transport,
};

/// How one cluster is reached.
pub(super) struct Source {
    origin: Origin,
    impersonate: Option<String>,
    connect: Duration,
    agent: HeaderValue,
    writes: Arc<dyn Writes>,
    live: Mutex<Option<Arc<Live>>>,
}

enum Origin {
    Operator(Box<Config>),
    InCluster,
    Kubeconfig(KubeconfigGrant),
}

/// A client, and what was found out through it.
pub(super) struct Live {
    pub(super) client: Client,
    /// Host and port, for people.
    pub(super) server: String,
    /// The address and trust, to be compared with the home cluster's.
    pub(super) config: Config,
    /// Whether the cluster holds the Proxies.
    pub(super) home: OnceCell<bool>,
    /// As whom calls are made.
    pub(super) user: OnceCell<String>,
    files: Vec<(PathBuf, Option<Stamp>)>,
}

/// Changes when a file's content does, also when the file is replaced by another.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Source {
    /// None when the grant says not how, or leans on an operator's cluster that is not there.
    pub(super) fn new(grant: &ClusterGrant, home: Option<&HomeCluster>, agent: HeaderValue) -> Option<Self> {
        let origin = match (&grant.kubeconfig, grant.in_cluster, grant.operator) {
            (Some(kubeconfig), false, false) => Origin::Kubeconfig(kubeconfig.clone()),
            (None, true, false) => Origin::InCluster,
            (None, false, true) => Origin::Operator(Box::new(home?.config.clone())),
            _ => return None,
        };
        let impersonate = grant
            .service_account
            .as_ref()
            .map(|a| format!("system:serviceaccount:{}:{}", a.namespace, a.name));
        let connect = Duration::from_millis(grant.timeouts.connect_ms);
        let writes = Arc::new(Always);
        Some(Self { origin, impersonate, connect, agent, writes, live: Mutex::new(None) })
    }

    /// Before it is used.
    pub(super) fn guard(&mut self, writes: Arc<dyn Writes>) {
        self.writes = writes;
    }

    /// Whether it is the operator's own cluster by construction.
    pub(super) fn is_operators(&self) -> bool {
        matches!(self.origin, Origin::Operator(_))
    }

    /// The client, made anew if a file behind it has changed.
    pub(super) async fn live(&self) -> Result<Arc<Live>, KubernetesFailure> {
        let mut kept = self.live.lock().await;
        if let Some(live) = kept.as_ref()
            && live.is_current().await
        {
            return Ok(live.clone());
        }
        *kept = None;
        let made = Arc::new(self.make().await?);
        *kept = Some(made.clone());
        Ok(made)
    }

    /// After a 401: the next call reads the credentials again, whatever the files look like.
    pub(super) async fn forget(&self, refused: &Arc<Live>) {
        let mut kept = self.live.lock().await;
        if kept.as_ref().is_some_and(|live| Arc::ptr_eq(live, refused)) {
            *kept = None;
        }
    }

    async fn make(&self) -> Result<Live, KubernetesFailure> {
        let (mut config, mut paths) = match &self.origin {
            Origin::Operator(config) => ((**config).clone(), Vec::new()),
            Origin::InCluster => {
                let config = Config::incluster()
                    .map_err(|e| failure::credentials(format!("no in-cluster credentials: {e}")))?;
                (config, Vec::new())
            }
            Origin::Kubeconfig(grant) => (read(grant).await?, vec![grant.file.clone()]),
        };
        paths.extend(named_files(&config));
        // Stamped before they are read for the client: what changes in between is read again.
        let mut files = Vec::new();
        for path in paths {
            let stamp = stamp(&path).await;
            files.push((path, stamp));
        }
        if let Some(user) = &self.impersonate {
            let AuthInfo { impersonate, impersonate_uid, impersonate_groups, impersonate_user_extra, .. } =
                &mut config.auth_info;
            (*impersonate, *impersonate_uid) = (Some(user.clone()), None);
            (*impersonate_groups, *impersonate_user_extra) = (None, None);
        }
        let host = config.cluster_url.host().unwrap_or_default();
        let server =
            config.cluster_url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let (connect, agent, for_client) = (self.connect, self.agent.clone(), config.clone());
        let writes = Arc::clone(&self.writes);
        let connecting = move || transport::connect(for_client, connect, agent, writes);
        let client = tokio::task::spawn_blocking(connecting)
            .await
            // kube panics at a token that is no header's value.
            .map_err(|_| failure::credentials(format!("{server}: {}", failure::UNUSABLE_TOKEN)))?
            .map_err(|error| {
                failure::credentials(format!("{server}: {}", unusable(&error, &config.auth_info)))
            })?;
        Ok(Live { client, server, config, home: OnceCell::new(), user: OnceCell::new(), files })
    }
}

impl Live {
    async fn is_current(&self) -> bool {
        for (path, then) in &self.files {
            if stamp(path).await != *then {
                return false;
            }
        }
        true
    }

    /// Whether address and trust are those of another config: then the server is the same too.
    pub(super) fn is_server_of(&self, other: &Config) -> bool {
        self.config.cluster_url == other.cluster_url
            && self.config.root_cert == other.root_cert
            && !self.config.accept_invalid_certs
    }
}

async fn stamp(path: &PathBuf) -> Option<Stamp> {
    let seen = tokio::fs::metadata(path).await.ok()?;
    Some(Stamp {
        device: seen.dev(),
        inode: seen.ino(),
        size: seen.size(),
        modified: (seen.mtime(), seen.mtime_nsec()),
        changed: (seen.ctime(), seen.ctime_nsec()),
    })
}

fn named_files(config: &Config) -> Vec<PathBuf> {
    let auth = &config.auth_info;
    let named = [&auth.token_file, &auth.client_certificate, &auth.client_key];
    named.into_iter().flatten().map(PathBuf::from).chain(config.root_cert_file.clone()).collect()
}

async fn read(grant: &KubeconfigGrant) -> Result<Config, KubernetesFailure> {
    let file = grant.file.clone();
    let shown = file.display().to_string();
    let refuse = |message: &str| failure::credentials(format!("kubeconfig {shown}: {message}"));
    let kubeconfig = tokio::task::spawn_blocking(move || Kubeconfig::read_from(file))
        .await
        .map_err(|_| refuse("can't be read"))?
        .map_err(|error| refuse(&unreadable(&error)))?;
    let options = KubeConfigOptions { context: grant.context.clone(), ..KubeConfigOptions::default() };
    let context = grant.context.as_ref().or(kubeconfig.current_context.as_ref()).cloned();
    let cluster = kubeconfig
        .contexts
        .iter()
        .find(|named| Some(&named.name) == context.as_ref())
        .and_then(|named| named.context.as_ref())
        .and_then(|context| kubeconfig.clusters.iter().find(|named| named.name == context.cluster))
        .and_then(|named| named.cluster.clone());
    if cluster.as_ref().and_then(|cluster| cluster.proxy_url.as_deref()).is_some_and(|url| !url.is_empty()) {
        return Err(refuse("its proxy-url is not supported; reach the API server directly"));
    }
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| refuse(&unreadable(&error)))?;
    // kube takes one from the environment, which is meant for other traffic.
    config.proxy_url = None;
    // Not for kube, which has read it already: to be stamped.
    if config.root_cert_file.is_none() {
        config.root_cert_file = cluster.and_then(|cluster| match cluster.certificate_authority_data {
            Some(_) => None,
            None => cluster.certificate_authority.map(PathBuf::from),
        });
    }
    Ok(config)
}

/// Errors of YAML quote what they could not read, which may be a token.
fn unreadable(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(_) => "is not a valid kubeconfig".to_owned(),
        KubeconfigError::ReadConfig(cause, _) => format!("can't be read: {cause}"),
        other => other.to_string(),
    }
}

/// Errors of credential helpers quote what these printed, and the environment that they were given.
fn unusable(error: &kube::Error, auth: &AuthInfo) -> String {
    let helper = auth.exec.as_ref().and_then(|exec| exec.command.as_deref()).unwrap_or("without a name");
    match error {
        kube::Error::Auth(AuthError::AuthExecRun { out, .. }) => {
            format!("the credential helper {helper} failed with {}", out.status)
        }
        kube::Error::Auth(AuthError::AuthExecStart(cause)) => {
            format!("the credential helper {helper} can't be run: {cause}")
        }
        kube::Error::Auth(AuthError::AuthExecParse(_)) => {
            format!("the answer of the credential helper {helper} is not an ExecCredential")
        }
        other => other.to_string(),
    }
}
