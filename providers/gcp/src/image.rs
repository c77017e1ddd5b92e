//! Images: what a config or a placement may name, and which of them are known to run no cloud-init.

use provider_sdk::config::Field;

use crate::config::{is_name, is_project};

/// Projects whose images are known to have no cloud-init: user-data would lie there unread.
const WITHOUT_CLOUD_INIT: [&str; 1] = ["debian-cloud"];

/// An image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// `projects/P/global/images/family/F` or `projects/P/global/images/NAME`.
    pub source: String,
    /// Whether it runs cloud-init, if the config says.
    said: Option<bool>,
}

impl Image {
    /// An entry of the catalogue.
    pub fn read(field: &Field<'_>) -> Option<Self> {
        field.object(|object| {
            let source = object.required("source", "projects/PROJECT/global/images/family/FAMILY");
            let image = source.and_then(|field| {
                let text = field.text()?;
                let image = Self::direct(text);
                if image.is_none() {
                    field.fault(format!(
                        "must be projects/PROJECT/global/images/family/FAMILY or projects/PROJECT/global/images/NAME, \
                         but is {text:?}"
                    ));
                }
                image
            });
            let said = object.optional("cloudInit").and_then(|field| field.boolean());
            image.map(|image| Self { said, ..image })
        })?
    }

    /// One that is named by its path; none for what is no such path.
    pub fn direct(text: &str) -> Option<Self> {
        let image = Self { source: text.to_owned(), said: None };
        image.path().map(|_| image.clone())
    }

    /// The project, and the segments below `global/images`.
    pub fn path(&self) -> Option<(&str, Vec<&str>)> {
        match self.source.split('/').collect::<Vec<_>>().as_slice() {
            ["projects", project, "global", "images", "family", family]
                if is_project(project) && is_name(family) =>
            {
                Some((*project, vec!["family", *family]))
            }
            ["projects", project, "global", "images", name] if is_project(project) && is_name(name) => {
                Some((*project, vec![*name]))
            }
            _ => None,
        }
    }

    /// Whether user-data would be read; a project that nothing is known of is believed.
    pub fn runs_cloud_init(&self) -> bool {
        let known = || self.path().is_none_or(|(project, _)| !WITHOUT_CLOUD_INIT.contains(&project));
        self.said.unwrap_or_else(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_cloud_init_is_known_by_its_project() {
        let debian = Image::direct("projects/debian-cloud/global/images/family/debian-13").unwrap();
        let ubuntu =
            Image::direct("projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64").unwrap();
        assert!(!debian.runs_cloud_init() && ubuntu.runs_cloud_init());
        assert!(Image { said: Some(true), ..debian }.runs_cloud_init(), "an own build may have it");
        for bad in ["", "debian-13", "projects/p/global/images/family/..", "projects//global/images/x"] {
            assert_eq!(Image::direct(bad), None, "{bad}");
        }
    }
}
