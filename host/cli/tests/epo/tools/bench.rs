//! `epo provider bench`.

use super::{
    super::command::{component, run},
    json, provider,
};

#[test]
fn every_call_has_its_cost_and_its_host_calls() {
    let ran = provider("bench", &component(), &["--rounds", "2", "-o", "json"]);
    let report = json(&ran.well());
    assert_eq!(report["rounds"], 2);
    let figures = report["components"][0]["figures"].as_array().unwrap();
    let of = |name: &str| {
        let found = figures.iter().find(|figure| figure["name"] == name);
        found.unwrap_or_else(|| panic!("{name} is missing in {figures:?}"))["value"].as_f64().unwrap()
    };
    for export in ["check", "create", "get", "list", "delete"] {
        for what in [
            "a call, median",
            "a call, 95th percentile",
            "computes, median",
            "memory, most",
            "calls in a life",
        ] {
            assert!(of(&format!("{export}: {what}")) > 0.0, "{export}: {what}");
        }
        assert!(
            of(&format!("{export}: computes, median")) <= of(&format!("{export}: a call, 95th percentile"))
        );
    }
    assert_eq!(of("get: host calls in a life").fract(), 0.0, "two lives are alike");
    assert!(of("create: calls in a life") >= 2.0);
    assert!(of("compile") > 0.0);
    assert_eq!(of("size"), std::fs::metadata(component()).unwrap().len() as f64);
    assert!(of("size, packed with zstd") < of("size"));
}

#[test]
fn two_components_stand_side_by_side() {
    let path = component();
    let path = path.to_str().unwrap();
    let table = run(&["provider", "bench", path, path, "--rounds", "1"]).well();
    let row = |name: &str| {
        let row = table.lines().find(|line| line.starts_with(name));
        row.unwrap_or_else(|| panic!("{name} is missing in {table}")).to_owned()
    };
    assert!(table.contains("FIRST") && table.contains("SECOND"), "{table}");
    assert!(row("size ").ends_with('='), "{table}");
    assert!(row("get: host calls in a life").ends_with('='), "{table}");
}
