//! What goes wrong with directories: two operators, rubbish, a directory that goes away or can't be written.

use std::{fs, os::unix::fs::PermissionsExt, thread, time::Duration};

use super::{
    backend::Backend,
    site::{Site, proxy},
};

/// Several looks long.
const A_WHILE: Duration = Duration::from_millis(2500);

fn three() -> (Backend, Site, super::site::Operator) {
    let (backend, site) = (Backend::start(), Site::new());
    site.save("providers.yaml", &backend.entry());
    for name in ["a", "b", "c"] {
        site.put_proxy(name, "gcp", 3128);
    }
    let operator = site.start();
    for name in ["a", "b", "c"] {
        site.phase(name, "Running");
    }
    (backend, site, operator)
}

#[test]
fn a_second_operator_is_refused_by_the_name_of_the_first() {
    let (_backend, site, mut operator) = three();
    let second = site.epo(&["run", "--metrics-address=off"]);
    assert_eq!(second.code, 1, "{}", second.err);
    let holder = fs::read_to_string(site.path.join(".status/lock")).unwrap();
    assert!(second.err.contains(holder.trim()) && holder.contains("process "), "{}", second.err);
    operator.assert_running();
    operator.kill();
    // A lock dies with its holder, whatever stands in the file.
    let _third = site.start();
    site.phase("a", "Running");
}

#[test]
fn files_that_vanish_at_once_delete_nothing_until_somebody_names_them() {
    let (backend, site, _operator) = three();
    let machines = backend.machines();
    for name in ["a", "b"] {
        fs::remove_file(site.path.join(format!("{name}.yaml"))).unwrap();
    }
    let told = |part: &str| {
        site.eventually(part, || {
            let got = site.epo(&["get"]);
            if got.err.contains(part) { Ok(()) } else { Err(got.err) }
        });
    };
    told("2 of 3 Proxies are in no file any more");
    fs::remove_file(site.path.join("c.yaml")).unwrap();
    fs::rename(site.path.join("providers.yaml"), site.path.join("providers.txt")).unwrap();
    told("the directory holds no document at all");
    thread::sleep(A_WHILE);
    assert_eq!(backend.machines(), machines);
    fs::rename(site.path.join("providers.txt"), site.path.join("providers.yaml")).unwrap();
    site.put_proxy("c", "gcp", 3128);
    let gone = site.epo(&["delete", "proxy", "a", "b"]);
    assert_eq!(gone.code, 0, "{}", gone.err);
    assert_eq!(backend.machines().len(), 1);
    site.phase("c", "Running");
}

#[test]
fn rubbish_in_one_file_harms_no_other_and_loses_nothing() {
    let (backend, site, mut operator) = three();
    let machines = backend.machines();
    fs::write(site.path.join("a.yaml"), b"\xff\xfe\x00binary").unwrap();
    fs::write(site.path.join("b.yaml"), "").unwrap();
    fs::write(site.path.join("rubbish.yaml"), "{".repeat(100_000)).unwrap();
    fs::write(site.path.join("bomb.yaml"), "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\nkind: Proxy\n")
        .unwrap();
    std::os::unix::fs::symlink("/dev/zero", site.path.join("endless.yaml")).unwrap();
    fs::create_dir(site.path.join("folder.yaml")).unwrap();
    site.put_proxy("d", "gcp", 3128);
    site.phase("d", "Running");
    thread::sleep(A_WHILE);
    let there = backend.machines();
    assert!(machines.iter().all(|machine| there.contains(machine)) && there.len() == 4, "{there:?}");
    let told = site.epo(&["get"]).err;
    for file in ["a.yaml: ", "b.yaml: ", "rubbish.yaml: ", "bomb.yaml: ", "endless.yaml: ", "folder.yaml: "] {
        assert!(told.contains(file), "{file}: {told}");
    }
    operator.assert_running();
    // And over a restart.
    operator.kill();
    let _again = site.start();
    site.put_proxy("e", "gcp", 3128);
    site.phase("e", "Running");
    assert_eq!(backend.machines().len(), 5);
}

#[test]
fn a_directory_that_goes_away_and_comes_back_keeps_everything() {
    let (backend, site, mut operator) = three();
    let machines = backend.machines();
    let away = site.path.with_extension("away");
    fs::rename(&site.path, &away).unwrap();
    thread::sleep(A_WHILE);
    // As an unmounted file system leaves it: a folder with nothing in it.
    fs::create_dir(&site.path).unwrap();
    thread::sleep(A_WHILE);
    operator.assert_running();
    assert!(site.has_said("is not there any more"), "{}", site.log());
    assert_eq!(fs::read_dir(&site.path).unwrap().count(), 0, "nothing is written there");
    assert_eq!(backend.machines(), machines);
    fs::remove_dir(&site.path).unwrap();
    fs::rename(&away, &site.path).unwrap();
    site.put_proxy("d", "gcp", 3128);
    site.phase("d", "Running");
    assert_eq!(backend.machines().len(), 4);
}

#[test]
fn what_can_not_be_kept_is_not_made() {
    let site = Site::new();
    site.put_proxy("web", "gcp", 3128);
    // Root may write wherever it likes; but a file is no folder for anybody.
    fs::write(site.path.join(".status"), "").unwrap();
    let refused = site.epo(&["run", "--metrics-address=off"]);
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(
        refused.err.contains(".status") && refused.err.contains("must be able to write there"),
        "{}",
        refused.err
    );
    let nowhere = site.path.join("nowhere");
    let refused =
        super::super::command::run(&["run", "--metrics-address=off", "--dir", nowhere.to_str().unwrap()]);
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("give a directory that is there"), "{}", refused.err);
}

#[test]
fn secrets_stay_where_they_are_and_the_identity_is_the_operators_alone() {
    let (_backend, site, _operator) = three();
    site.save(
        "token.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: { name: t }\nstringData: { t: hush-hush-hush }\n",
    );
    site.save(
        "d.yaml",
        &proxy("d", "gcp", 3128)
            .replace("port: 3128", "port: 3128, cloudInit: { secretRef: { name: t, key: t } }"),
    );
    site.phase("d", "Running");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o077;
    assert_eq!(mode(&site.path.join(".status")), 0, "a spec may hold user-data");
    let mut found = Vec::new();
    super::site::files(&site.path.join(".status"), &mut found);
    for path in found {
        let text = fs::read(&path).unwrap();
        let hush = b"hush-hush-hush";
        assert!(!text.windows(hush.len()).any(|window| window == hush), "{}", path.display());
        if path.components().any(|part| part.as_os_str() == "secrets") {
            assert_eq!(mode(&path), 0, "{}", path.display());
        }
    }
    assert!(!site.has_said("hush-hush-hush"));
}
