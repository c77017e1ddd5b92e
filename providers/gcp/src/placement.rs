//! What a placement means here: zones in the order in which they are tried, a machine type, an image.
//!
//! Decided before anything is asked: what can't be honoured is refused by its field's name.

use provider_sdk::{
    Error, Placement,
    placement::{names, refused},
};
use sha2::{Digest, Sha256};

use crate::{
    config::{Config, is_machine_type, region_of},
    image::Image,
};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// One where a zone is asked for; else all of the region's, beginning at one that the name decides.
    pub zones: Vec<String>,
    pub machine_type: String,
    pub image: Image,
}

impl Config {
    /// What a placement means for the instance of this name.
    pub fn placed(&self, placement: &Placement, name: &str) -> Result<Placed, Error> {
        if let Some((field, _)) = placement.unknown.iter().find(|(_, value)| !value.is_null()) {
            return Err(refused(field, "is set, and this provider does not know it; remove it".to_owned()));
        }
        let zones = self.zones_of(placement, name)?;
        let asked = placement.machine_type.as_ref().or(self.defaults.machine_type.as_ref());
        let machine_type = one("machineType", asked, self.machine_types.keys())?;
        let machine_type = match self.machine_types.get(machine_type) {
            Some(known) => known.clone(),
            None if is_machine_type(machine_type) => machine_type.to_owned(),
            None => {
                let known = names(self.machine_types.keys());
                return Err(refused(
                    "machineType",
                    format!(
                        "{machine_type:?} is neither among the entry's machineTypes ({known}) nor a name such as e2-small"
                    ),
                ));
            }
        };
        let asked = placement.image.as_ref().or(self.defaults.image.as_ref());
        let image = one("image", asked, self.images.keys())?;
        let image = match self.images.get(image).cloned().or_else(|| Image::direct(image)) {
            Some(image) => image,
            None => {
                let known = names(self.images.keys());
                return Err(refused(
                    "image",
                    format!(
                        "{image:?} is neither among the entry's images ({known}) nor \
                         projects/PROJECT/global/images/family/FAMILY"
                    ),
                ));
            }
        };
        Ok(Placed { zones, machine_type, image })
    }

    fn zones_of(&self, placement: &Placement, name: &str) -> Result<Vec<String>, Error> {
        // What the Proxy says of either leaves the defaults of both aside.
        let (zone, region) = match (&placement.zone, &placement.region) {
            (None, None) => (self.defaults.zone.as_ref(), self.defaults.region.as_ref()),
            (zone, region) => (zone.as_ref(), region.as_ref()),
        };
        let all = names(self.zones.iter());
        if let Some(region) = region
            && !self.zones.iter().any(|zone| region_of(zone) == region.as_str())
        {
            return Err(refused(
                "region",
                format!("{region:?} is the region of none of the entry's zones ({all})"),
            ));
        }
        if let Some(zone) = zone {
            if !self.zones.contains(zone) {
                return Err(refused("zone", format!("{zone:?} is not among the entry's zones ({all})")));
            }
            if let Some(region) = region.filter(|region| region_of(zone) != region.as_str()) {
                return Err(refused(
                    "zone",
                    format!("{zone:?} is not in the region {region:?}; remove one of the two"),
                ));
            }
            return Ok(vec![zone.clone()]);
        }
        let regions = self.regions();
        let region = match (region, regions.as_slice()) {
            (Some(region), _) => region.as_str(),
            (None, [only]) => only,
            _ => {
                return Err(refused(
                    "zone",
                    format!(
                        "and region are empty, and there is more than one region to choose from ({}); name a zone or \
                         a region, or set defaults.region",
                        regions.join(", ")
                    ),
                ));
            }
        };
        let mut zones: Vec<String> =
            self.zones.iter().filter(|zone| region_of(zone) == region).cloned().collect();
        let first = Sha256::digest(name.as_bytes()).first().copied().unwrap_or_default();
        let first = usize::from(first).checked_rem(zones.len()).unwrap_or_default();
        zones.rotate_left(first);
        Ok(zones)
    }
}

/// What is asked for, or the only one there is.
fn one<'a>(
    field: &str,
    asked: Option<&'a String>,
    mut known: impl Iterator<Item = &'a String> + Clone,
) -> Result<&'a str, Error> {
    if let Some(asked) = asked {
        return Ok(asked);
    }
    let all = names(known.clone());
    match (known.next(), known.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(refused(
            field,
            format!(
                "is empty, and there is not exactly one to choose from ({all}); name one, or set defaults.{field}"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn zones(
        defaults: &serde_json::Value,
        zone: Option<&str>,
        region: Option<&str>,
    ) -> Result<Vec<String>, String> {
        let config = Config::read(&json!({
            "project": "lab-project",
            "zones": ["us-central1-a", "us-central1-b", "europe-west1-b"],
            "defaults": defaults,
        }));
        let placement = Placement {
            zone: zone.map(str::to_owned),
            region: region.map(str::to_owned),
            machine_type: Some("e2-small".to_owned()),
            image: Some("projects/p-4711/global/images/x".to_owned()),
            ..Placement::default()
        };
        let mut placed = config.unwrap().placed(&placement, "proxy-a").map_err(|error| error.message)?;
        placed.zones.sort();
        Ok(placed.zones)
    }

    #[test]
    fn a_region_leaves_the_zone_to_choose() {
        let none = json!({});
        let both = vec!["us-central1-a".to_owned(), "us-central1-b".to_owned()];
        assert_eq!(zones(&none, None, Some("us-central1")), Ok(both.clone()));
        assert_eq!(zones(&none, Some("us-central1-b"), None), Ok(vec!["us-central1-b".to_owned()]));
        assert_eq!(zones(&json!({ "region": "us-central1" }), None, None), Ok(both));
        let europe = Ok(vec!["europe-west1-b".to_owned()]);
        assert_eq!(zones(&json!({ "region": "us-central1" }), Some("europe-west1-b"), None), europe);
        assert_eq!(zones(&json!({ "zone": "us-central1-a" }), None, Some("europe-west1")), europe);
    }

    #[test]
    fn what_leaves_no_zone_is_refused_by_its_field() {
        let none = json!({});
        for (zone, region, field) in [
            (None, None, "placement.zone"),
            (Some("us-east1-b"), None, "placement.zone"),
            (None, Some("us-east1"), "placement.region"),
            (Some("europe-west1-b"), Some("us-central1"), "placement.zone"),
        ] {
            let refused = zones(&none, zone, region).unwrap_err();
            assert!(refused.contains(field), "{refused}");
        }
    }

    #[test]
    fn names_spread_over_the_zones_of_a_region() {
        let config = Config::read(&json!({
            "project": "lab-project",
            "zones": ["us-central1-a", "us-central1-b"],
            "defaults": { "machineType": "e2-small", "image": "projects/p-4711/global/images/x" },
        }));
        let config = config.unwrap();
        let first = |name: &str| config.placed(&Placement::default(), name).unwrap().zones.remove(0);
        let firsts: std::collections::BTreeSet<String> =
            (0..20).map(|number| first(&format!("proxy-{number}"))).collect();
        assert_eq!(firsts.len(), 2);
        assert_eq!(first("proxy-1"), first("proxy-1"));
    }
}
