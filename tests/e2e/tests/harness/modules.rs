//! Components to load: the real provider, builds of it that differ, and one that misbehaves as its config says.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// What the misbehaving guest reads before it has a config, and where it stands in it.
const EARLY: &[u8] = b"misbehave-early:";
const EARLY_BYTES: usize = 48;

static KUBERNETES: LazyLock<Vec<u8>> = LazyLock::new(|| build("kubernetes-provider"));
static KVM: LazyLock<Vec<u8>> = LazyLock::new(|| build("kvm-provider"));
static KVM2: LazyLock<Vec<u8>> = LazyLock::new(|| build("kvm2-provider"));
static PROXMOX: LazyLock<Vec<u8>> = LazyLock::new(|| build("proxmox-provider"));
static GCP: LazyLock<Vec<u8>> = LazyLock::new(|| build("gcp-provider"));
static MUTANTS: LazyLock<Vec<u8>> = LazyLock::new(|| build("fixture-mutants"));
static MISBEHAVING: LazyLock<Vec<u8>> = LazyLock::new(|| build("fixture-misbehave"));

fn build(package: &str) -> Vec<u8> {
    let guest = provider_encode::Guest::find(Path::new(env!("CARGO_MANIFEST_DIR")), Some(package));
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{package}.wasm"));
    guest.expect("the guest's crate").build(&out).expect("the guest builds");
    std::fs::read(out).expect("the component")
}

/// The kubernetes provider.
pub fn kubernetes_provider() -> Vec<u8> {
    KUBERNETES.clone()
}

/// The provider for Proxmox VE.
pub fn proxmox_provider() -> Vec<u8> {
    PROXMOX.clone()
}

/// The provider for Compute Engine.
pub fn gcp_provider() -> Vec<u8> {
    GCP.clone()
}

/// The kvm provider.
pub fn kvm_provider() -> Vec<u8> {
    KVM.clone()
}

/// The kvm2 provider.
pub fn kvm2_provider() -> Vec<u8> {
    KVM2.clone()
}

/// The same component with a note in a section of its own: it does the same under another digest, as a
/// rebuild by another toolchain would.
pub fn another_build(component: &[u8], note: &str) -> Vec<u8> {
    let content = [&[4][..], b"note", note.as_bytes()].concat();
    let length = u8::try_from(content.len()).ok().filter(|length| *length < 128).expect("a short note");
    [component, &[0, length], &content].concat()
}

/// The kubernetes provider, which breaks the promise that its config's `mutant` names.
pub fn mutants() -> Vec<u8> {
    MUTANTS.clone()
}

/// The component that misbehaves: which fault, in which export, and how much of it stand in its config.
pub fn misbehaving() -> Vec<u8> {
    MISBEHAVING.clone()
}

/// The same, told what to do before it has a config.
pub fn misbehaving_from_the_start(early: &str) -> Vec<u8> {
    let mut bytes = misbehaving();
    let at = bytes.windows(EARLY.len()).position(|window| window == EARLY).expect("the place for it");
    let text = format!("{}{early}", String::from_utf8_lossy(EARLY));
    assert!(text.len() <= EARLY_BYTES, "{text}");
    bytes[at..at + EARLY_BYTES].copy_from_slice(format!("{text:EARLY_BYTES$}").as_bytes());
    bytes
}

/// The component with another text wherever one stands; both are equally long, so it stays well formed.
pub fn with_text(component: &[u8], text: &str, instead: &str) -> Vec<u8> {
    assert_eq!(text.len(), instead.len());
    let mut bytes = component.to_vec();
    let (mut at, mut found) = (0, 0);
    while let Some(next) = bytes[at..].windows(text.len()).position(|window| window == text.as_bytes()) {
        at += next;
        bytes[at..at + text.len()].copy_from_slice(instead.as_bytes());
        found += 1;
    }
    assert_ne!(found, 0, "{text:?} stands nowhere in the component");
    bytes
}

/// The component with a core module beside it that nobody uses, of one function of so many branches and values
/// alive across them that the compiler would need minutes, and gigabytes, which it asks for first. It packs to
/// little.
pub fn slow_to_compile(component: &[u8]) -> Vec<u8> {
    const PARAMETERS: usize = 1000;
    const LOCALS: usize = 3000;
    const BRANCHES: usize = 100_000;
    let mut body = [leb(1), leb(LOCALS - PARAMETERS), vec![0x7f]].concat();
    for branch in 0..BRANCHES {
        // block { br_if 0 local[a]; global = local[b] = local[c] * local[d] }
        body.extend([0x02, 0x40, 0x20]);
        body.extend(leb(branch * 3 % LOCALS));
        body.extend([0x0d, 0]);
        for local in [branch * 7, branch * 13 + 5] {
            body.push(0x20);
            body.extend(leb(local % LOCALS));
        }
        body.extend([0x6c, 0x22]);
        body.extend(leb(branch * 11 % LOCALS));
        body.extend([0x24, 0, 0x0b]);
    }
    body.push(0x0b);
    let section = |id: u8, content: Vec<u8>| [vec![id], leb(content.len()), content].concat();
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, [vec![1, 0x60], leb(PARAMETERS), vec![0x7f; PARAMETERS], vec![0]].concat()),
        section(3, vec![1, 0]),
        // One mutable i32.
        section(6, vec![1, 0x7f, 1, 0x41, 0, 0x0b]),
        section(10, [leb(1), leb(body.len()), body].concat()),
    ]
    .concat();
    [component, &section(1, module)].concat()
}

fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).expect("seven bits");
        number >>= 7;
        bytes.push(if number == 0 { low } else { low | 0x80 });
        if number == 0 {
            return bytes;
        }
    }
}
