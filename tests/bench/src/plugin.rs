//! `bench plugin PLUGIN-SOCKET HOST-SOCKET`: the provider's logic in a process of its own, as plugin systems
//! over gRPC do it. Credentials and backends stay with the host, as they must, so each host call goes back
//! over gRPC.

use std::path::PathBuf;

use serde_json::Value;
use tokio::runtime::Handle;
use tonic::{Request, Response, Status, transport::Channel};

use crate::{
    Failure,
    backend::{HostCall, Refused},
    operation::Operation,
    wire::{self, Document, HostClient, plugin_server},
};

struct Plugin {
    host: HostClient<Channel>,
}

#[tonic::async_trait]
impl plugin_server::Plugin for Plugin {
    async fn operate(&self, request: Request<Document>) -> Result<Response<Document>, Status> {
        let operation: Operation = serde_json::from_str(&request.into_inner().json).map_err(internal)?;
        let host = self.host.clone();
        // The logic is synchronous, here as in a component.
        let json = tokio::task::spawn_blocking(move || operation.run(|call| ask(&host, &call))).await;
        Ok(Response::new(Document { json: json.map_err(internal)?, bytes: Vec::new() }))
    }
}

/// One host call, there and back.
fn ask(host: &HostClient<Channel>, call: &HostCall) -> Result<Value, Refused> {
    let unreadable = |_| Refused { code: 500, reason: "Wire".into() };
    let json = serde_json::to_string(call).map_err(unreadable)?;
    let mut host = host.clone();
    let answer = Handle::current().block_on(host.call(Document { json, bytes: Vec::new() }));
    let answer = answer.map_err(|status| Refused { code: 500, reason: status.message().into() })?;
    serde_json::from_str(&answer.into_inner().json).map_err(unreadable)?
}

fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

/// Serves until it is killed.
pub(crate) async fn serve(own: PathBuf, host: PathBuf) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new("the plugin process", error.to_string());
    let host = HostClient::new(wire::connect(host).await.map_err(|error| failed(&error))?);
    let plugin = plugin_server::PluginServer::new(Plugin { host });
    let incoming = wire::listen(&own).map_err(|error| failed(&error))?;
    let server = tonic::transport::Server::builder().add_service(plugin);
    server.serve_with_incoming(incoming).await.map_err(|error| failed(&error))
}
