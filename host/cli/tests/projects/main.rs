//! The projects that are built with more than Rust: `make projects`, where node, npm and python3 are.

#[cfg(test)]
mod ci;

#[test]
fn a_project_in_javascript_passes_its_own_ci() {
    ci::passes("kubernetes", "javascript");
}

#[test]
fn a_project_in_python_passes_its_own_ci() {
    ci::passes("kubernetes", "python");
}
