//! An end that somebody asks for: what was made at a real backend is removed first.

use std::io::Write;

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

use crate::failure::Failure;

/// As a shell tells of a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// Comes when somebody presses Ctrl-C or ends the process. Whoever does so again does not want to wait.
pub fn asked_for() -> Result<impl Future<Output = ()>, Failure> {
    let failed = |error: std::io::Error| Failure::Setup(format!("can't listen for Ctrl-C: {error}"));
    // Beside the suite, whose executor may be busy.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (mut interrupt, mut terminate) = {
        let _within = runtime.enter();
        (signal(SignalKind::interrupt()).map_err(failed)?, signal(SignalKind::terminate()).map_err(failed)?)
    };
    let (tell, told) = oneshot::channel();
    let mut asked = async move || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            asked().await;
            say("ending; what was made is removed first, unless you ask again");
            let _ = tell.send(());
            asked().await;
            say("ended at once; the next run removes what this one made");
            std::process::exit(INTERRUPTED);
        });
    });
    Ok(async {
        // Where nobody listens any more, nobody asks.
        if told.await.is_err() {
            std::future::pending().await
        }
    })
}

fn say(text: &str) {
    // Whoever closed the standard error does not want to hear it.
    let _ = writeln!(std::io::stderr(), "epo: {text}");
}
