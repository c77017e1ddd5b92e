//! Where no machine stands: what is on its way, and seeds on any node.

use provider_sdk::Error;

use super::{Next, Removal, TASK_POLL_MS};
use crate::{
    Host,
    progress::{Progress, Stage},
    seed,
};

/// Tasks that may make what is not to be seen yet.
const MAKING: [&str; 2] = ["qmclone", "imgcopy"];

impl<H: Host> Removal<'_, '_, H> {
    /// Waits for what ran at the first look, and for nothing that was begun since.
    pub fn flight(&mut self) -> Result<Next, Error> {
        let first = self.progress.flight.is_empty();
        let mut active = Vec::new();
        for node in &self.cluster.config.nodes {
            let tasks = self.cluster.active(&node.name, None).map_err(|trouble| self.about(trouble))?;
            active.extend(tasks.into_iter().filter(|task| MAKING.contains(&task.kind.as_str())));
        }
        let mut running: Vec<String> = active.into_iter().map(|task| task.upid).collect();
        if first && running.is_empty() {
            return Ok(self.then_sweeps());
        }
        running.retain(|upid| first || self.progress.flight.contains(upid));
        if running.is_empty() {
            // Looked at once more, by the stage that the look is in.
            self.progress = Progress::at(Stage::Flight);
            return self.look();
        }
        let message = format!(
            "{}: waits for {} clones and uploads, of which one may be its",
            self.target.name,
            running.len()
        );
        self.progress = Progress { flight: running, ..Progress::at(Stage::Flight) };
        Ok(Next::Wait { poll_ms: TASK_POLL_MS, message })
    }

    /// The seed goes from every node. One that can't be asked may have it.
    pub fn sweep(&mut self) -> Result<Next, Error> {
        let at = usize::try_from(self.progress.swept).unwrap_or(usize::MAX);
        let Some(node) = self.cluster.config.nodes.get(at) else { return Ok(Next::Done) };
        let volume = seed::volume(&node.iso_storage, &self.target.name);
        match self.cluster.erase(&node.name, &node.iso_storage, &volume) {
            Ok(Some(upid)) => {
                self.progress.task = Some(upid.to_string());
                let message = format!("node {}: removes the seed of {}", node.name, self.target.name);
                return Ok(Next::Wait { poll_ms: TASK_POLL_MS, message });
            }
            Ok(None) => {}
            Err(trouble) if trouble.lacks_storage() => {}
            Err(trouble) => return Err(self.about(trouble)),
        }
        self.progress.swept += 1;
        Ok(Next::Stage(Stage::Sweep))
    }
}
