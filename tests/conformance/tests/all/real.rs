//! The way to a real cluster, tried without one: a simulated cluster in real time stands at its end.

use std::sync::Arc;

use egress_conformance::{Settings, Suite, kind::kubernetes::RealKubernetes};
use egress_runtime::capability::SystemClock;
use egress_sim::kubernetes::{Cluster, Pace};
use serde_json::json;

use crate::support::{Printed, component, entry, runtime};

#[test]
fn a_cluster_that_is_not_ours_to_wind_on_is_prepared_looked_at_and_left_clean() {
    let cluster = Cluster::new(Arc::new(SystemClock::default()));
    cluster.set_pace(Pace { sandbox: 1, pull: 1, start: 1, probe: 1, ..Pace::default() });
    let namespaces = ["team-a", "team-b"].map(str::to_owned);
    namespaces.iter().for_each(|namespace| cluster.add_namespace(namespace));
    let admin = Arc::new(cluster.as_user("admin"));
    let kind = RealKubernetes::new(Arc::new(cluster.clone()), admin, vec!["home".to_owned()], namespaces);
    // One for each thing that is done behind the provider's back.
    let only =
        ["create-is-repeatable", "quota-is-told-apart", "list-shows-leftovers", "foreign-is-not-shown"];
    let settings = Settings {
        entry: Some(entry(json!({ "cluster": "home", "image": "example.com/squid:6" }))),
        only: only.map(str::to_owned).to_vec(),
        ..Settings::new(component("kubernetes-provider"))
    };
    let before = cluster.objects().len();
    let suite = Suite::open_in(runtime(), Arc::new(kind), settings).unwrap();
    let report = suite.run(&Printed).unwrap();
    assert_eq!((report.kept(), report.broken(), report.failed()), (only.len(), 0, 0));
    // The next run clears away what the last one left.
    let only = vec!["unknown-place-is-refused".to_owned()];
    let namespaces = ["team-a", "team-b"].map(str::to_owned);
    let admin = Arc::new(cluster.as_user("admin"));
    let kind = RealKubernetes::new(Arc::new(cluster.clone()), admin, vec!["home".to_owned()], namespaces);
    let settings = Settings {
        entry: Some(entry(json!({ "cluster": "home", "image": "example.com/squid:6" }))),
        only,
        ..Settings::new(component("kubernetes-provider"))
    };
    Suite::open_in(runtime(), Arc::new(kind), settings).unwrap().run(&()).unwrap();
    assert_eq!(cluster.objects().len(), before);
}
