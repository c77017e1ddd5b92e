//! What holds for any value and any bytes.

use std::time::Duration;

use libvirt_remote::{
    AddressType, DhcpLease, Domain, DomainInfo, DomainState, ErrorCode, ErrorDomain, ErrorLevel, Fault,
    Interface, InterfaceAddress, NodeInfo, StoragePool, StoragePoolInfo, StoragePoolState, StorageVol,
    StorageVolInfo, StorageVolType, Uuid,
    xdr::{Decode, Decoder, Encode},
};
use proptest::{collection::vec, option, prelude::*};

use crate::server::*;

/// Text without the NUL, which is refused.
fn text() -> impl Strategy<Value = String> {
    vec(any::<char>().prop_filter("NUL", |&char| char != '\0'), 0..20)
        .prop_map(|chars| chars.into_iter().collect())
}

fn uuid() -> impl Strategy<Value = Uuid> {
    any::<[u8; 16]>().prop_map(Uuid)
}

fn address() -> impl Strategy<Value = InterfaceAddress> {
    let fields = (any::<i32>(), text(), any::<u32>());
    fields.prop_map(|(kind, address, prefix)| InterfaceAddress { kind: kind.into(), address, prefix })
}

fn same<T: Encode + Decode + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = encoded(value);
    assert_eq!(bytes.len() % 4, 0);
    assert_eq!(Decoder::whole::<T>(&bytes).as_ref(), Ok(value));
    // A byte less or more is noticed, never read past.
    assert!(Decoder::whole::<T>(&bytes[..bytes.len() - 1]).is_err());
    assert!(Decoder::whole::<T>(&[&bytes[..], b"\0"].concat()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_structure_is_read_back_as_it_was_written(
        name in text(), more in text(), maybe in option::of(text()), uuid in uuid(),
        id in option::of(0..i32::MAX.cast_unsigned()),
        (a, b, c) in any::<(u64, u64, u64)>(), (n, m) in any::<(i32, i32)>(), addresses in vec(address(), 0..4),
    ) {
        same(&Domain { name: name.clone(), uuid, id });
        same(&StoragePool { name: name.clone(), uuid });
        same(&StorageVol { pool: more.clone(), name: name.clone(), key: more.clone() });
        same(&StoragePoolInfo { state: StoragePoolState::from(n), capacity: a, allocation: b, available: c });
        same(&StorageVolInfo { kind: StorageVolType::from(m), capacity: a, allocation: b });
        let state = DomainState::from(n);
        same(&DomainInfo { state, max_memory: a, memory: b, vcpus: m.cast_unsigned(), cpu_time: c });
        same(&Interface { name: name.clone(), hardware_address: maybe.clone(), addresses });
        same(&NodeInfo {
            model: name.chars().filter(char::is_ascii).collect(),
            memory: a, cpus: n, mhz: m, nodes: n, sockets: m, cores: n, threads: m,
        });
        same(&DhcpLease {
            interface: name.clone(), expiry: a.cast_signed(), kind: AddressType::from(n), mac: maybe.clone(),
            iaid: None, address: more.clone(), prefix: m.cast_unsigned(), hostname: maybe.clone(), client_id: maybe.clone(),
        });
        same(&Fault {
            code: ErrorCode(n), domain: ErrorDomain(m), level: ErrorLevel(n), message: more,
            str1: maybe.clone(), str2: Some(name), str3: maybe, int1: m, int2: n,
        });
    }

    #[test]
    fn a_uuid_is_read_back_as_it_was_printed(uuid in uuid()) {
        prop_assert_eq!(uuid.to_string().parse::<Uuid>(), Ok(uuid));
    }

    /// The caller is answered or told why not, whatever a server sends and then hangs up.
    #[test]
    fn whatever_a_server_sends_nobody_waits_for_ever(
        bytes in vec(any::<u8>(), 0..300), small in any::<bool>(), in_frame in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (libvirt, mut server) = Server::open().await;
            let call = lookup(&libvirt, "a");
            let vol = vol();
            let other = libvirt.clone();
            let download = tokio::spawn(async move {
                let mut download = other.storage_vol_download(&vol, 0, None).await?;
                while download.chunk().await?.is_some() {}
                Ok::<_, libvirt_remote::Error>(())
            });
            let first = server.next().await;
            let second = server.next().await;
            let opened = if first.procedure == DOWNLOAD { first } else { second };
            server.send(&opened.reply()).await;
            let bytes: Vec<u8> = if small { bytes.iter().map(|byte| byte % 8).collect() } else { bytes };
            if in_frame {
                server.send(&opened.stream(CONTINUE, &bytes)).await;
                server.send(&opened.stream(u32::from(small), &bytes)).await;
            } else {
                server.raw(&bytes).await;
            }
            drop(server);
            let all = tokio::time::timeout(Duration::from_secs(60), async { (call.await, download.await) });
            let (call, download) = all.await.expect("somebody waits for ever");
            assert!(call.unwrap().is_err() && download.unwrap().is_err());
        });
    }
}
