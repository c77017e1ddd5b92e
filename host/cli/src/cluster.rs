//! Which cluster, and how a command reaches it.

use std::path::{Path, PathBuf};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::{failure::Failure, output::quoted, setup};

/// The same words as kubectl's.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ClusterArgs {
    /// The kubeconfig [default: as kubectl: $KUBECONFIG, ~/.kube/config; else the Pod's own cluster]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig [default: its current one]
    #[arg(long)]
    context: Option<String>,
}

impl ClusterArgs {
    /// As it was typed, for a command that does the same again.
    pub fn again(&self) -> String {
        let kubeconfig = self.kubeconfig.iter().map(|path| format!(" --kubeconfig {}", quoted(path)));
        let context = self.context.iter().map(|context| format!(" --context {}", quoted(Path::new(context))));
        kubeconfig.chain(context).collect()
    }

    /// Whether somebody said which cluster.
    pub fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// The kubeconfigs that these words may mean.
    pub fn files(&self) -> Vec<PathBuf> {
        match (&self.kubeconfig, std::env::var_os("KUBECONFIG")) {
            (Some(path), _) => vec![path.clone()],
            (None, Some(paths)) => std::env::split_paths(&paths).collect(),
            (None, None) => std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect(),
        }
    }

    /// For a command that asks once and ends.
    pub async fn client(&self) -> Result<Client, Failure> {
        setup::tls()?;
        let mut config = self.config().await?;
        config.default_retry = false;
        Client::try_from(config)
            .map_err(|error| Failure::Unreachable(format!("can't use this cluster's configuration: {error}")))
    }

    pub async fn config(&self) -> Result<Config, Failure> {
        let unreachable = |cause: &dyn std::fmt::Display| {
            Failure::Unreachable(format!(
                "there is no cluster to talk to: {cause}; give --kubeconfig or --context"
            ))
        };
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        match (&self.kubeconfig, &self.context) {
            (Some(path), _) => {
                let kubeconfig = Kubeconfig::read_from(path).map_err(|error| unreachable(&error))?;
                Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .map_err(|error| unreachable(&error))
            }
            (None, Some(_)) => Config::from_kubeconfig(&options).await.map_err(|error| unreachable(&error)),
            (None, None) => Config::infer().await.map_err(|error| unreachable(&error)),
        }
    }
}
