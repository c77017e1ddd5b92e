//! What the operator calls, and where each call goes.
//!
//! Each call runs in a fresh instance, so nothing is remembered: a call reads what stands at the
//! backend, decides from that alone, and makes at most one step. Whatever is cut off is taken up by
//! the next call, whoever makes it.
//!
//! [`config`] is whole: it reads what an entry may say, and refuses what a Proxy can't have here.
//! [`backend`] is yours to write.

mod backend;
mod config;

#[cfg(test)]
mod tests;

use provider_sdk::{
    Context, Created, Deleted, Description, Error, Fault, Health, HealthReason, Instance, Page,
    Provider, Spec, Target, reason,
};
use serde_json::{Map, Value};

use config::Config;

/// As it describes itself.
const NAME: &str = "{{name}}";

/// The provider, over whatever it is lent: in a component that is `provider_sdk::Imports`, in a
/// test whatever stands there.
pub struct MachineProvider<H> {
    host: H,
}

impl<H> From<H> for MachineProvider<H> {
    fn from(host: H) -> Self {
        Self { host }
    }
}

impl<H: Context> MachineProvider<H> {
    /// The config that `configure` accepted: a fresh instance has forgotten it.
    fn config(&self) -> Result<Config, Error> {
        Config::read(&self.host.config()).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let told = faults.join("; ");
            Error::permanent(
                reason::CONFIG,
                format!("the entry's config is at fault: {told}"),
            )
        })
    }
}

impl<H: Context> Provider for MachineProvider<H> {
    fn describe() -> Description {
        Description {
            name: NAME,
            version: env!("CARGO_PKG_VERSION"),
            profile: config::PROFILE,
            config_schema: include_str!("config.schema.json"),
        }
    }

    fn configure(config: &Value) -> Result<Vec<String>, Vec<Fault>> {
        Config::read(config).map(|config| config.places())
    }

    fn create(&self, target: &Target, spec: &Spec, user_data: &[u8]) -> Result<Created, Error> {
        let config = self.config()?;
        // What can't be honoured is refused before any call.
        let place = config.place(&spec.placement)?;
        backend::create(&self.host, &config, &place, target, spec, user_data)
    }

    fn get(&self, target: &Target) -> Result<Instance, Error> {
        backend::get(&self.host, &self.config()?, target)
    }

    fn delete(&self, target: &Target) -> Result<Deleted, Error> {
        backend::delete(&self.host, &self.config()?, target)
    }

    fn list(&self, place: &str, cursor: Option<&str>) -> Result<Page, Error> {
        backend::list(&self.host, &self.config()?, place, cursor)
    }

    fn check(&self, place: &str) -> Health {
        let config = match self.config() {
            Ok(config) if config.places().iter().any(|known| known == place) => config,
            Ok(config) => {
                let known = config.places().join(", ");
                return unready(format!(
                    "the config has the places {known}, and no place {place}"
                ));
            }
            Err(error) => return unready(error.message),
        };
        backend::check(&self.host, &config, place)
    }
}

fn unready(message: String) -> Health {
    Health {
        ready: false,
        reason: HealthReason::ApiError,
        message,
        details: Map::new(),
    }
}

provider_sdk::export!(MachineProvider<provider_sdk::Imports>);
