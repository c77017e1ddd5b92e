//! The bindings that wit-bindgen writes from `wit/`.
//!
//! One world with every capability, not one per kind of backend: the capabilities that a provider does
//! not call are dropped when its component is encoded, so one set of types serves all.

#![allow(
    missing_docs,
    clippy::allow_attributes_without_reason,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unimplemented,
    clippy::todo,
    reason = "generated"
)]

wit_bindgen::generate!({
    path: "../../wit",
    inline: "
        package egress:sdk;

        world every-capability {
            include egress:provider/kubernetes-provider@0.1.0;
            include egress:provider/http-provider@0.1.0;
            include egress:provider/libvirt-provider@0.1.0;
        }
    ",
    world: "egress:sdk/every-capability",
    generate_all,
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "provider_sdk::bindings",
});
