//! A project that `epo provider new` made passes its own CI script, with nothing but what it says it needs.

use std::{
    path::Path,
    process::{Command, Stdio},
};

/// As long as a name may be.
const NAME: &str = "a-provider-of-my-own";

/// Makes it, and runs its `ci.sh`: build, its own tests, and what the operator would do with the component.
pub fn passes(kind: &str, lang: &str) {
    let epo = env!("CARGO_BIN_EXE_epo");
    let folder = tempfile::tempdir().unwrap();
    let new = Command::new(epo)
        .current_dir(folder.path())
        .args(["provider", "new", NAME, "--kind", kind, "--lang", lang])
        .stdout(Stdio::null())
        .status();
    assert!(new.unwrap().success());
    let output = Command::new(folder.path().join(NAME).join("ci.sh"))
        .env("EPO", epo)
        .env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"))
        // Kept between runs: what a project is built of changes seldom.
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("projects"))
        // Whether it builds is the question here, not how fast it then is.
        .envs([("CARGO_PROFILE_PROVIDER_OPT_LEVEL", "1"), ("CARGO_PROFILE_PROVIDER_LTO", "off")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
