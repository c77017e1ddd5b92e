//! The same create, three ways: in a component, natively behind a trait object, in a plugin process.

use std::{
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use egress_contract::{Created, Installation, Provider, Spec, Target};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tonic::{Request, Response, Status, transport::Channel};

use crate::{
    Failure,
    backend::{Backend, HostCall},
    operation::{Answer, Kind, Operation},
    report::Report,
    wire::{self, Document, PluginClient, host_server},
};

const UID: &str = "6f1d9c1e-7a7b-4f6e-9b52-0d4f6f1c2a33";
const BATCH: usize = 200;
const BATCHES: usize = 15;

/// The provider's config in every way.
pub(crate) fn config() -> Value {
    json!({"cluster": "bench", "namespace": "bench", "image": "docker.io/lab/squid:1"})
}

/// Names that were not used before: each create makes something.
struct Names {
    installation: Installation,
    next: AtomicU32,
}

impl Names {
    fn next(&self) -> Target {
        let incarnation = self.next.fetch_add(1, Ordering::Relaxed);
        Target {
            name: self.installation.instance_name("bench", UID, incarnation),
            uid: UID.into(),
            incarnation,
            namespace: "bench".into(),
            proxy: "bench".into(),
            id: None,
            progress: None,
        }
    }

    fn operation(&self, kind: Kind) -> Operation {
        let target = self.next();
        Operation {
            kind,
            name: target.name.to_string(),
            id: (kind == Kind::Empty).then(|| "no id".to_owned()),
            progress: None,
            port: 3128,
            config: config(),
            mark: self.installation.mark(UID, target.incarnation, "bench", "bench"),
        }
    }
}

/// Steps until done. Every way takes the same ones.
async fn steps<F, Fut>(mut step: F) -> Result<(), Failure>
where
    F: FnMut(Option<(Option<String>, String)>) -> Fut,
    Fut: Future<Output = Answer>,
{
    let mut before = None;
    for _ in 0..10 {
        match step(before.take()).await {
            Answer::Done(_) => return Ok(()),
            Answer::Pending { id, progress } => before = Some((id, progress)),
            Answer::Refused(message) => return Err(Failure::new("a create", message)),
        }
    }
    Err(Failure::new("a create", "is not done after ten steps"))
}

fn go_on(mut operation: Operation, before: Option<(Option<String>, String)>) -> Operation {
    if let Some((id, progress)) = before {
        operation.id = id;
        operation.progress = Some(progress);
    }
    operation
}

/// Microseconds of one, over batches, so that a single reading is no clock's noise.
async fn time<F, Fut>(backend: &Backend, mut one: F) -> Result<Vec<f64>, Failure>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<(), Failure>>,
{
    let mut readings = Vec::with_capacity(BATCHES);
    for batch in 0..=BATCHES {
        backend.clear();
        let start = Instant::now();
        for _ in 0..BATCH {
            one().await?;
        }
        // The first warms up.
        if batch > 0 {
            readings.push(start.elapsed().as_secs_f64() * 1e6 / BATCH as f64);
        }
    }
    Ok(readings)
}

/// Measures all three and what follows from them.
pub(crate) async fn measure(
    report: &mut Report,
    installation: &Installation,
    provider: &dyn Provider,
    backend: &Arc<Backend>,
    folder: &Path,
) -> Result<(), Failure> {
    let names = Names { installation: installation.clone(), next: AtomicU32::new(1) };
    let spec = &Spec { port: 3128, ..Spec::default() };

    let in_component = |before: Option<(Option<String>, String)>, target: Target| async move {
        let (id, progress) = before.map_or((None, None), |(id, progress)| (id, Some(progress)));
        match provider.create(&Target { id, progress, ..target }, spec, &[]).await {
            Ok(Created::Done(id)) => Answer::Done(id),
            Ok(Created::Pending(pending)) => Answer::Pending { id: pending.id, progress: pending.progress },
            Err(error) => Answer::Refused(error.message),
        }
    };
    let empty = time(backend, || async {
        let target = Target { id: Some("no id".into()), ..names.next() };
        provider.get(&target).await.map_or(Ok(()), |_| Err(Failure::new("an empty call", "found something")))
    })
    .await?;
    let asked = backend.calls();
    let create = time(backend, || {
        let target = names.next();
        steps(move |before| in_component(before, target.clone()))
    })
    .await?;
    let calls = (backend.calls() - asked) as f64 / (BATCH * (BATCHES + 1)) as f64;
    let wasm_empty = report.samples("fresh call without host call: component", "us", empty);
    let wasm = report.samples("full create: component", "us", create);

    let natively = |operation: Operation| {
        let backend = Arc::clone(backend);
        async move { operation.answer(|call| backend.answer(call)) }
    };
    let empty = time(backend, || async {
        natively(names.operation(Kind::Empty)).await;
        Ok(())
    })
    .await?;
    let create = time(backend, || {
        let operation = names.operation(Kind::Create);
        steps(move |before| natively(go_on(operation.clone(), before)))
    })
    .await?;
    report.samples("fresh call without host call: native", "us", empty);
    let native = report.samples("full create: native", "us", create);

    let plugin = Plugin::start(folder, backend).await?;
    let empty = time(backend, || async {
        plugin.operate(names.operation(Kind::Empty)).await;
        Ok(())
    })
    .await?;
    let create = time(backend, || {
        let operation = names.operation(Kind::Create);
        let plugin = &plugin;
        steps(move |before| plugin.operate(go_on(operation.clone(), before)))
    })
    .await?;
    let process_empty = report.samples("fresh call without host call: plugin process", "us", empty);
    let process = report.samples("full create: plugin process", "us", create);
    plugin.end().await;

    report.figure("host calls in a full create", "count", calls, None);
    report.figure("full create: component over native", "us", wasm - native, Some(150.0));
    report.figure(
        "full create: component as a share of the plugin process",
        "ratio",
        wasm / process,
        Some(0.25),
    );
    report.figure(
        "fresh call: component as a share of the plugin process",
        "ratio",
        wasm_empty / process_empty,
        None,
    );
    Ok(())
}

/// The host's end of the plugin process.
struct Plugin {
    client: PluginClient<Channel>,
    child: Child,
    host: tokio::task::JoinHandle<()>,
}

struct Host(Arc<Backend>);

#[tonic::async_trait]
impl host_server::Host for Host {
    async fn call(&self, request: Request<Document>) -> Result<Response<Document>, Status> {
        let internal = |error: serde_json::Error| Status::internal(error.to_string());
        let call: HostCall = serde_json::from_str(&request.into_inner().json).map_err(internal)?;
        let json = serde_json::to_string(&self.0.answer(call)).map_err(internal)?;
        Ok(Response::new(Document { json, bytes: Vec::new() }))
    }
}

impl Plugin {
    async fn start(folder: &Path, backend: &Arc<Backend>) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::new("the plugin process", error.to_string());
        let (own, host) = (folder.join("plugin.sock"), folder.join("host.sock"));
        let incoming = wire::listen(&host).map_err(|error| failed(&error))?;
        let service = host_server::HostServer::new(Host(Arc::clone(backend)));
        let host_task = tokio::spawn(async move {
            let server = tonic::transport::Server::builder().add_service(service);
            if let Err(error) = server.serve_with_incoming(incoming).await {
                eprintln!("bench: the host's end of the plugin process: {error}");
            }
        });
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let child = Command::new(program)
            .arg("plugin")
            .args([&own, &host])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(&error))?;
        let mut last = String::new();
        for _ in 0..100 {
            match wire::connect(own.clone()).await {
                Ok(channel) => {
                    return Ok(Self { client: PluginClient::new(channel), child, host: host_task });
                }
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(failed(&last))
    }

    async fn operate(&self, operation: Operation) -> Answer {
        let json = serde_json::to_string(&operation).unwrap_or_default();
        match self.client.clone().operate(Document { json, bytes: Vec::new() }).await {
            Ok(answer) => serde_json::from_str(&answer.into_inner().json)
                .unwrap_or_else(|error| Answer::Refused(error.to_string())),
            Err(status) => Answer::Refused(status.message().to_owned()),
        }
    }

    async fn end(mut self) {
        self.host.abort();
        if let Err(error) = self.child.kill().await {
            eprintln!("bench: the plugin process did not end: {error}");
        }
    }
}
