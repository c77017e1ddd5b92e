//! What an administrator sees and does at the hosts.

use egress_runtime::capability::{InterfaceAddress, LibvirtFailure};

use super::{
    hosts::Hosts,
    pool::{INACTIVE, RUNNING as POOL_RUNNING, Volume},
    state::{Dom, HostState, PAUSED, PMSUSPENDED, RUNNING, SHUTOFF, Served},
};

impl Hosts {
    fn each(&self, then: impl FnMut(&mut HostState)) {
        self.lock().hosts.values_mut().for_each(then);
    }

    /// What they are called.
    pub fn names(&self) -> Vec<String> {
        self.lock().hosts.keys().cloned().collect()
    }

    /// By host and name.
    pub fn domains(&self) -> Vec<(String, String, Dom)> {
        let world = self.lock();
        let of = |(host, state): (&String, &HostState)| -> Vec<(String, String, Dom)> {
            state.domains.iter().map(|(name, dom)| (host.clone(), name.clone(), dom.clone())).collect()
        };
        world.hosts.iter().flat_map(of).collect()
    }

    /// By host, pool and name.
    pub fn volumes(&self) -> Vec<(String, String, String, Volume)> {
        let mut found = Vec::new();
        for (host, state) in &self.lock().hosts {
            for (pool, of) in &state.pools {
                let named = of
                    .volumes
                    .iter()
                    .map(|(name, volume)| (host.clone(), pool.clone(), name.clone(), volume.clone()));
                found.extend(named);
            }
        }
        found
    }

    /// Changes a domain; whether there is one.
    pub fn edit(&self, host: &str, name: &str, change: impl FnOnce(&mut Dom)) -> bool {
        let mut world = self.lock();
        let dom = world.hosts.get_mut(host).and_then(|host| host.domains.get_mut(name));
        dom.map(change).is_some()
    }

    /// Rewrites the metadata elements of a domain; whether there is one.
    pub fn edit_metadata(&self, host: &str, name: &str, change: impl Fn(&str) -> Option<String>) -> bool {
        self.edit(host, name, |dom| {
            let metadata = std::mem::take(&mut dom.definition.metadata);
            dom.definition.metadata =
                metadata.into_iter().filter_map(|(uri, text)| Some((uri, change(&text)?))).collect();
        })
    }

    /// Switches a domain off and undefines it, volumes aside; whether there was one.
    pub fn remove_domain(&self, host: &str, name: &str) -> bool {
        self.lock().hosts.get_mut(host).is_some_and(|host| host.domains.remove(name).is_some())
    }

    /// Removes a volume from whatever pool it is in; whether there was one.
    pub fn remove_volume(&self, host: &str, name: &str) -> bool {
        let mut world = self.lock();
        let pools = world.hosts.get_mut(host).map(|host| host.pools.values_mut());
        pools.into_iter().flatten().any(|pool| pool.volumes.remove(name).is_some())
    }

    /// `virsh suspend` and `virsh resume`.
    pub fn pause(&self, host: &str, name: &str, paused: bool) -> bool {
        self.edit(host, name, |dom| dom.state = if paused { (PAUSED, 1) } else { (RUNNING, 5) })
    }

    /// `virsh dompmsuspend` and `virsh dompmwakeup`.
    pub fn suspend(&self, host: &str, name: &str, suspended: bool) -> bool {
        self.edit(host, name, |dom| dom.state = if suspended { (PMSUSPENDED, 1) } else { (RUNNING, 4) })
    }

    /// What a source (0 leases, 1 agent, 2 neighbours) says of its addresses from now on.
    pub fn tell_addresses(
        &self,
        host: &str,
        name: &str,
        source: u32,
        told: Result<Vec<InterfaceAddress>, LibvirtFailure>,
    ) -> bool {
        self.edit(host, name, |dom| drop(dom.told.insert(source, told)))
    }

    /// `virsh destroy`.
    pub fn stop(&self, host: &str, name: &str) -> bool {
        self.edit(host, name, |dom| dom.state = (SHUTOFF, 2))
    }

    /// A state that nobody knows.
    pub fn bewitch(&self, host: &str, name: &str) -> bool {
        self.edit(host, name, |dom| dom.state = (4711, 0))
    }

    /// It runs, and shows no address.
    pub fn silence(&self, host: &str, name: &str) -> bool {
        self.edit(host, name, |dom| dom.silent = true)
    }

    /// Whether pools have room.
    pub fn fill_up(&self, full: bool) {
        self.each(|host| host.pools.values_mut().for_each(|pool| pool.full = full));
    }

    /// Whether what is started ends at once.
    pub fn never_start(&self, never: bool) {
        self.each(|host| host.never_starts = never);
    }

    /// Whether pools are active.
    pub fn activate_pools(&self, active: bool) {
        let state = if active { POOL_RUNNING } else { INACTIVE };
        self.each(|host| host.pools.values_mut().for_each(|pool| pool.state = state));
    }

    /// What stands behind a URL from now on.
    pub fn serve(&self, url: &str, served: Served) {
        self.lock().served.insert(url.to_owned(), served);
    }
}
