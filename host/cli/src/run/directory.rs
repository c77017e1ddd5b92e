//! `epo run --dir`: the operator over a directory.

use std::path::PathBuf;

use egress_operator::{ApiServer, OperatorError};
use egress_standalone::Directory;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::failure::Failure;

/// Instead of a cluster.
#[derive(clap::Args)]
pub struct DirectoryArgs {
    /// Run without a cluster: Proxies, provider entries and Secrets are the YAML files in DIR
    ///
    /// The same documents that a cluster takes. The operator keeps what it made in DIR/.status; look at it with
    /// epo get, epo describe and epo delete. Only one operator runs on a directory.
    #[arg(
        long = "dir",
        env = "EPO_DIR",
        value_name = "DIR",
        conflicts_with_all = ["kubeconfig", "context", "watch"]
    )]
    path: Option<PathBuf>,
}

/// One that is run.
pub struct RunDirectory {
    path: PathBuf,
    server: ApiServer,
    directory: Directory,
}

impl DirectoryArgs {
    /// Whether there is to be no cluster.
    pub fn is_given(&self) -> bool {
        self.path.is_some()
    }

    /// Takes it.
    pub async fn open(&self, namespace: &str, providers: &str) -> Result<Option<RunDirectory>, Failure> {
        let Some(path) = self.path.clone() else { return Ok(None) };
        let (of, namespace, providers) = (path.clone(), namespace.to_owned(), providers.to_owned());
        let opened = tokio::task::spawn_blocking(move || Directory::open(&of, &namespace, &providers));
        let directory = opened
            .await
            .map_err(|error| Failure::Setup(format!("reading the directory broke down: {error}")))??;
        info!(directory = %path.display(), "without a cluster: what is wanted are the YAML files in this directory");
        for (namespace, name) in directory.misplaced() {
            warn!(
                "ConfigMap {namespace}/{name} is not used: give --namespace {namespace}, or take the namespace out of it"
            );
        }
        let server = ApiServer::Here(directory.client());
        Ok(Some(RunDirectory { path, server, directory }))
    }
}

impl RunDirectory {
    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// What the operator talks to.
    pub fn server(&self) -> ApiServer {
        self.server.clone()
    }

    /// Follows the directory while the operator runs, and lets go of it afterwards.
    pub async fn around(self, runs: impl Future<Output = Result<(), OperatorError>>) -> Result<(), Failure> {
        let stop = CancellationToken::new();
        let kept = self.directory.keep(stop.clone());
        tokio::pin!(kept, runs);
        tokio::select! {
            () = &mut kept => Err(Failure::Setup("the directory is not followed any more".to_owned())),
            ended = &mut runs => {
                stop.cancel();
                kept.await;
                Ok(ended?)
            }
        }
    }
}
