//! What a machine is made of: its disk, its seed, its definition.

use provider_sdk::{Error, Level, libvirt::code, reason};

use super::{LARGEST_SEED, MIB, Making, Next, Stage};
use crate::{
    Host,
    domain::{self, Wanted},
    image, mark, seed, volume,
};

impl<H: Host> Making<'_, '_, H> {
    /// The disk. One that stands there was begun by an earlier step, and is checked before it is used.
    pub fn overlay(&self) -> Result<Next, Error> {
        let Self { site, pool, config, .. } = self;
        let (name, base) = (volume::overlay(&self.at.name), self.base());
        let _held = image::hold(self.host, site.name(), &base.name)?;
        let xml = volume::overlay_xml(&name, config.disk_bytes, &self.progress.base, base.format().as_str());
        let asked = || site.asked(format!("make the disk {name}"));
        match site.connection().volume_create(pool, &xml) {
            Ok(()) => return Ok(Next::Stage(Stage::Seed)),
            Err(failure) if failure.is(code::STORAGE_VOL_EXIST) => {}
            Err(failure) if failure.is(code::OPERATION_INVALID) => {
                // A file lies there that the pool does not know of; or the pool is not active, which this tells too.
                site.call(
                    || format!("read the pool {pool} again"),
                    |connection| connection.pool_refresh(pool),
                )?;
                return Err(asked().error(&failure));
            }
            Err(failure) => return Err(asked().error(&failure)),
        }
        // One that a machine was defined with is that machine's, whatever it is.
        if self.progress.mends {
            return Ok(Next::Stage(Stage::Seed));
        }
        let text = site.call(|| format!("look at the disk {name}"), |c| c.volume_xml(pool, &name))?;
        let seen =
            volume::read(&text).ok_or_else(|| site.asked(format!("look at the disk {name}")).garbled())?;
        let fits = seen.format == "qcow2"
            && seen.capacity == config.disk_bytes
            && seen.backing.as_deref() == Some(self.progress.base.as_str());
        if fits {
            return Ok(Next::Stage(Stage::Seed));
        }
        self.host.write(
            Level::Warn,
            "a disk from an earlier step does not fit, and is made anew",
            &[("volume", &name)],
        );
        image::delete(site, pool, &name)?;
        Ok(Next::Stage(Stage::Overlay))
    }

    /// The seed. Its bytes depend on what goes in alone, so one that is whole is told by comparing.
    pub fn seed(&self) -> Result<Next, Error> {
        let Self { site, pool, .. } = self;
        let name = volume::seed(&self.at.name);
        let wanted = seed::image(self.config, &self.at.name, self.user_data);
        let next = Next::Stage(if self.domain.is_some() { Stage::Autostart } else { Stage::Define });
        let most = u32::try_from(LARGEST_SEED).unwrap_or(u32::MAX);
        match site.connection().volume_download(pool, &name, most) {
            Ok(stands) if stands == wanted => return Ok(next),
            // What a machine was defined with is that machine's: an instance's seed does not change.
            Ok(_) if self.domain.is_some() => return Ok(next),
            Ok(stands) if stands.len() == wanted.len() => {}
            Ok(_) => {
                image::delete(site, pool, &name)?;
                return Ok(Next::Stage(Stage::Seed));
            }
            Err(failure) if failure.is(code::NO_STORAGE_VOL) => {
                let xml = volume::raw_xml(&name, wanted.len() as u64);
                match site.connection().volume_create(pool, &xml) {
                    Ok(()) => {}
                    Err(failure) if failure.is(code::STORAGE_VOL_EXIST) => {}
                    Err(failure) => return Err(site.asked(format!("make the seed {name}")).error(&failure)),
                }
            }
            Err(failure) => return Err(site.asked(format!("read the seed {name}")).error(&failure)),
        }
        site.call(|| format!("write the seed {name}"), |c| c.volume_upload(pool, &name, &wanted))?;
        Ok(next)
    }

    pub fn define(&mut self) -> Result<Next, Error> {
        let Self { site, pool, at, placed, progress, .. } = &*self;
        let path = |name: String| -> Result<String, Error> {
            let text = site.call(|| format!("look at the volume {name}"), |c| c.volume_xml(pool, &name))?;
            let seen = volume::read(&text);
            seen.map(|seen| seen.path)
                .ok_or_else(|| site.asked(format!("look at the volume {name}")).garbled())
        };
        let (overlay, seed) = (path(volume::overlay(&at.name))?, path(volume::seed(&at.name))?);
        let mark = mark::write(&self.host.mark(), self.host.now_ms(), Some(self.ways.namespace));
        let wanted = Wanted {
            name: &at.name,
            machine: placed.machine,
            firmware: placed.image.firmware,
            kind: if progress.kind == "qemu" { "qemu" } else { "kvm" },
            overlay: &overlay,
            seed: &seed,
            bridge: &site.bridge()?,
            console_logs: self.config.console_logs.as_deref(),
            mark: &mark,
        };
        match site.connection().define(&domain::write(&wanted)) {
            Ok(domain) => {
                self.domain = Some(domain);
                Ok(Next::Stage(Stage::Autostart))
            }
            // Somebody made one under this name meanwhile: the next call looks whose it is.
            Err(failure) if failure.is(code::OPERATION_FAILED) => Err(Error::transient(
                reason::BUSY,
                format!("host {}: define {}: {}; looked at again", at.host, at.name, failure.message),
            )
            .forget_progress()),
            Err(failure) => Err(site.asked(format!("define {}", at.name)).error(&failure)),
        }
    }

    /// Which type of domain the host can run.
    pub fn kind(&self) -> Result<&'static str, Error> {
        let what = "look what the host offers";
        let text = self.site.call(|| what.to_owned(), |connection| connection.capabilities())?;
        let kinds = domain::kinds(&text).ok_or_else(|| self.site.asked(what).garbled())?;
        match (kinds.kvm, kinds.qemu) {
            (true, _) => Ok("kvm"),
            (false, true) if self.config.allow_emulation => Ok("qemu"),
            _ => Err(Error::permanent(
                reason::UNSUPPORTED,
                format!(
                    "host {} offers no KVM for x86_64; enable virtualization in its firmware, or set allowEmulation: \
                     true if slow machines will do",
                    self.at.host
                ),
            )),
        }
    }

    /// Whether the host has the memory.
    pub fn memory(&self) -> Result<(), Error> {
        let free = self.site.call(|| "look how much memory is free".to_owned(), |c| c.free_memory())? / MIB;
        let needed = self.placed.machine.memory_mib;
        if free < needed {
            return Err(Error::quota(format!(
                "host {} has {free} MiB of memory free, and {} needs {needed} MiB; choose a smaller machineType or \
                 another host",
                self.at.host, self.at.name
            ))
            .detail("freeMiB", free)
            .detail("neededMiB", needed));
        }
        Ok(())
    }
}
