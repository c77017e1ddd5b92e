//! What libvirt answers when it refuses, to the letter.

use egress_runtime::capability::{LibvirtFailure, LibvirtStage};

/// virErrorDomain.
const QEMU: i32 = 10;
const STORAGE: i32 = 18;
const CONF: i32 = 20;

pub type Answer<T> = Result<T, LibvirtFailure>;

/// libvirt said so.
pub fn said(code: i32, domain: i32, message: impl Into<String>) -> LibvirtFailure {
    LibvirtFailure {
        stage: LibvirtStage::Libvirt,
        code,
        domain,
        errno: 0,
        message: message.into(),
        sent: true,
    }
}

/// The call never got there.
pub fn unsent(stage: LibvirtStage, message: impl Into<String>) -> LibvirtFailure {
    LibvirtFailure { stage, code: 0, domain: 0, errno: 0, message: message.into(), sent: false }
}

pub fn no_pool(name: &str) -> LibvirtFailure {
    said(49, STORAGE, format!("Storage pool not found: no storage pool with matching name '{name}'"))
}

pub fn pool_inactive(name: &str) -> LibvirtFailure {
    said(55, STORAGE, format!("Requested operation is not valid: storage pool '{name}' is not active"))
}

pub fn no_volume(name: &str) -> LibvirtFailure {
    said(50, STORAGE, format!("Storage volume not found: no storage vol with matching name '{name}'"))
}

pub fn volume_exists(name: &str) -> LibvirtFailure {
    said(90, STORAGE, format!("storage volume '{name}' exists already"))
}

pub fn no_backing(path: &str) -> LibvirtFailure {
    LibvirtFailure {
        errno: 2,
        ..said(38, STORAGE, format!("inaccessible backing store volume {path}: No such file or directory"))
    }
}

pub fn volume_xml_broken() -> LibvirtFailure {
    said(
        35,
        STORAGE,
        "at line 1: Premature end of data in tag name line 1\n<volume><name>x\n---------------^",
    )
}

pub fn volume_without_name() -> LibvirtFailure {
    said(27, STORAGE, "XML error: missing volume name element")
}

pub fn volume_format(format: &str) -> LibvirtFailure {
    said(67, STORAGE, format!("unsupported configuration: unknown volume format type {format}"))
}

pub fn no_domain(name: &str) -> LibvirtFailure {
    said(42, QEMU, format!("Domain not found: no domain with matching name '{name}'"))
}

pub fn no_domain_of(uuid: &str, name: &str) -> LibvirtFailure {
    said(42, QEMU, format!("Domain not found: no domain with matching uuid '{uuid}' ({name})"))
}

pub fn domain_xml_broken() -> LibvirtFailure {
    said(35, CONF, "at line 1: Premature end of data in tag domain line 1\n<domain>\n--------^")
}

pub fn domain_without_name() -> LibvirtFailure {
    said(21, CONF, "missing name information")
}

pub fn domain_type(kind: &str) -> LibvirtFailure {
    said(67, CONF, format!("unsupported configuration: invalid domain type {kind}"))
}

pub fn domain_without_memory() -> LibvirtFailure {
    said(27, CONF, "XML error: Memory size must be specified via <memory> or in the <numa> configuration")
}

pub fn name_taken(name: &str, uuid: &str) -> LibvirtFailure {
    said(9, CONF, format!("operation failed: domain '{name}' already exists with uuid {uuid}"))
}

pub fn uuid_taken(name: &str, uuid: &str) -> LibvirtFailure {
    said(9, CONF, format!("operation failed: domain '{name}' is already defined with uuid {uuid}"))
}

pub fn no_metadata() -> LibvirtFailure {
    said(80, CONF, "metadata not found: Requested metadata element is not present")
}

pub fn not_running() -> LibvirtFailure {
    said(55, CONF, "Requested operation is not valid: domain is not running")
}

pub fn running_already() -> LibvirtFailure {
    said(55, QEMU, "Requested operation is not valid: domain is already running")
}

pub fn has_nvram() -> LibvirtFailure {
    said(55, QEMU, "Requested operation is not valid: cannot undefine domain with nvram")
}

pub fn no_file(path: &str) -> LibvirtFailure {
    LibvirtFailure {
        errno: 2,
        ..said(
            38,
            STORAGE,
            format!("Cannot access storage file '{path}' (as uid:0, gid:0): No such file or directory"),
        )
    }
}

pub fn no_bridge(name: &str) -> LibvirtFailure {
    LibvirtFailure {
        errno: 19,
        ..said(38, 0, format!("Cannot get interface MTU on '{name}': No such device"))
    }
}

pub fn no_memory() -> LibvirtFailure {
    said(
        1,
        QEMU,
        "internal error: process exited while connecting to monitor: qemu-system-x86_64: cannot set up guest memory \
         'pc.ram': Cannot allocate memory",
    )
}

pub fn qemu_ended(name: &str) -> LibvirtFailure {
    said(
        1,
        QEMU,
        format!(
            "internal error: QEMU unexpectedly closed the monitor (vm='{name}'): error: failed to set MSR 0x10a to \
             0xc000069"
        ),
    )
}

pub fn agent_silent() -> LibvirtFailure {
    said(86, QEMU, "Guest agent is not responding: QEMU guest agent is not connected")
}

pub fn agent_unconfigured() -> LibvirtFailure {
    said(74, QEMU, "argument unsupported: QEMU guest agent is not configured")
}

pub fn bad_source(source: u32) -> LibvirtFailure {
    said(74, QEMU, format!("argument unsupported: Unknown IP address data source {source}"))
}
