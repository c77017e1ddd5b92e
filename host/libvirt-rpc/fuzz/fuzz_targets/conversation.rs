#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| libvirt_remote::fuzz::conversation(data));
