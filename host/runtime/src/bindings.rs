//! What `wit/` becomes in Rust, on the host's side.
//!
//! One world with every interface that this host serves: which of them a component gets is decided by what
//! is linked, so a trait is implemented once and not once per kind of backend.

wasmtime::component::bindgen!({
    path: "../../wit",
    inline: "
        package egress:host;

        world provider-component {
            include egress:provider/http-provider@0.1.0;
            include egress:provider/kubernetes-provider@0.1.0;
            include egress:provider/libvirt-provider@0.1.0;
        }
    ",
    world: "egress:host/provider-component",
    imports: {
        "egress:provider/context@0.1.0": trappable,
        "egress:provider/log@0.1.0": trappable,
        "egress:provider/clock@0.1.0.now-ms": trappable,
        "egress:provider/clock@0.1.0.monotonic-ms": trappable,
        default: async | trappable,
    },
    exports: { default: async },
    with: {
        "egress:provider/locks.lock": crate::locks::Held,
        "egress:provider/libvirt.connection": crate::imports_libvirt::Connection,
    },
});
