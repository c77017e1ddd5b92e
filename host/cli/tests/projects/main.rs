//! The projects that are built with more than Rust: `make projects`, where node, npm and python3 are.

#[cfg(test)]
#[expect(dead_code, reason = "the tests on a real cluster take components out of it")]
mod project;

#[cfg(test)]
mod languages {
    use std::path::Path;

    use super::project::Project;

    fn passes_its_ci(lang: &str) {
        Project::new(Path::new(env!("CARGO_BIN_EXE_epo")), "kubernetes", lang).passes_its_ci();
    }

    #[test]
    fn a_project_in_javascript_passes_its_own_ci() {
        passes_its_ci("javascript");
    }

    #[test]
    fn a_project_in_python_passes_its_own_ci() {
        passes_its_ci("python");
    }
}
