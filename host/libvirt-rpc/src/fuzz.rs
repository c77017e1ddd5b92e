//! What the fuzzers run, as plain functions: each takes any bytes and must return.
//!
//! The targets in `fuzz/` call them under libFuzzer; the tests below run the corpus and a bounded random
//! drive, so that both work without a nightly compiler.

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;

use crate::{
    book::{Answer, Book},
    domain::{DomainInfo, Interface},
    error::{Cause, Error, StreamError},
    fault::Fault,
    flow::Direction,
    host::{MAX_LIST, MemoryStat, NodeInfo},
    network::DhcpLease,
    packet::{self, Front, Header, Kind, PREFIX, Status},
    procedure::{self, Procedure},
    storage::{StoragePoolInfo, StorageVolInfo},
    types::{Domain, Listed, Network, StoragePool, StorageVol},
    xdr::{Decode, Decoder, Encode, Encoder},
};

/// Cuts bytes into packets as the reader does, a few at a time.
pub fn framing(data: &[u8]) {
    const MAX: usize = 4096;
    let mut read = BytesMut::new();
    for piece in data.chunks(7) {
        read.extend_from_slice(piece);
        loop {
            match packet::take(&mut read, MAX) {
                Ok(Front::Packet(_, payload)) => assert!(payload.len() <= MAX - PREFIX),
                Ok(Front::Lacks(lacks)) => {
                    assert!((1..=MAX).contains(&lacks));
                    break;
                }
                Err(_) => return,
            }
        }
        assert!(read.len() < MAX, "a whole packet was left lying");
    }
}

/// Reads bytes as every answer that there is; what can be read must be written alike.
pub fn answers(data: &[u8]) {
    fn same<T: Decode + Encode + PartialEq + std::fmt::Debug>(data: &[u8]) {
        let Ok(value) = Decoder::whole::<T>(data) else { return };
        let mut to = Encoder::new();
        // Text that is no UTF-8 grows when it is shown, maybe beyond the limit.
        if value.encode(&mut to).is_ok() {
            let again = Decoder::whole::<T>(&to.finish());
            assert_eq!(again.as_ref(), Ok(&value));
        }
    }
    let Some((kind, data)) = data.split_first() else { return };
    match kind % 12 {
        0 => same::<Fault>(data),
        1 => same::<Domain>(data),
        2 => same::<StoragePool>(data),
        3 => same::<StorageVol>(data),
        4 => same::<Network>(data),
        5 => same::<Interface>(data),
        6 => same::<DhcpLease>(data),
        7 => same::<NodeInfo>(data),
        8 => same::<DomainInfo>(data),
        9 => same::<StoragePoolInfo>(data),
        10 => same::<StorageVolInfo>(data),
        _ => {
            let _ = Decoder::whole::<Listed<StorageVol, MAX_LIST>>(data);
            let _ = Decoder::whole::<Listed<MemoryStat, 16>>(data);
            let _ = Decoder::whole::<(String, Option<String>)>(data);
        }
    }
}

/// Plays a caller and a server at once, as the bytes tell. Nothing may panic, what is kept may not exceed
/// what the caller began and the server sent within the buffer, and at the end nobody may be left waiting.
pub fn conversation(data: &[u8]) {
    let mut book = Book::new();
    let mut waiting: Vec<(u32, oneshot::Receiver<Result<Answer, Error>>)> = Vec::new();
    let mut begun = 0;
    let mut heard = 0;
    let mut bytes = data.iter().copied();
    let mut broken = None;
    while let Some(step) = bytes.next() {
        let argument = bytes.next().unwrap_or(0);
        let serial = u32::from(argument % 16);
        match step % 12 {
            0 | 1 => {
                let (procedure, opens) = opening(argument);
                if let Ok((serial, answer)) = book.begin(procedure, Bytes::new(), opens) {
                    waiting.push((serial, answer));
                    begun += 1;
                }
            }
            2 => {
                waiting.retain(|(one, _)| *one != serial);
                broken = book.give_up(serial).err();
            }
            3 | 4 => {
                let _ = book.next_packet();
            }
            5..=8 => {
                let kind = bytes.next().unwrap_or(0);
                let payload = bytes.next().unwrap_or(0) & 15;
                let payload: Bytes = bytes.by_ref().take(usize::from(payload)).collect();
                heard += payload.len() + 64;
                broken = book.receive(header(serial, argument, kind), payload).err();
            }
            9 => {
                let packet = header(serial, argument, 3).with(Bytes::from_static(b"data"));
                let _ = book.with_flow(serial, |flow| flow.offer(&packet));
            }
            10 => {
                let _ = book.with_flow(serial, |flow| (flow.next(), flow.finish()));
            }
            _ => match argument % 5 {
                0 => book.abort(serial),
                1 => book.break_off(serial, StreamError::Hole),
                2 => book.ping(),
                3 => book.leave(),
                _ => drop(book.with_flow(serial, |flow| flow.next())),
            },
        }
        // A call is in at most three lists, a stream in three with four packets, and each may leave an end.
        assert!(book.size() <= begun * 8 + heard, "{} kept for {begun} begun and {heard} heard", book.size());
        if let Some(violation) = broken.take() {
            book.close(std::sync::Arc::new(Cause::from(violation)));
        }
    }
    book.close(std::sync::Arc::new(Cause::Local));
    assert!(book.next_packet().is_none_or(|packet| packet.payload.is_empty()), "only a ping or pong is left");
    for (serial, mut answer) in waiting {
        assert!(answer.try_recv().is_ok(), "call {serial} was left waiting");
    }
}

fn opening(argument: u8) -> (Procedure, Option<Direction>) {
    match argument % 5 {
        0 => (procedure::STORAGE_VOL_UPLOAD, Some(Direction::Up)),
        1 => (procedure::STORAGE_VOL_DOWNLOAD, Some(Direction::Down)),
        2 => (procedure::DOMAIN_OPEN_CONSOLE, Some(Direction::Both)),
        3 => (procedure::DOMAIN_AGENT_COMMAND, None),
        _ => (procedure::DOMAIN_LOOKUP_BY_NAME, None),
    }
}

fn header(serial: u32, argument: u8, kind: u8) -> Header {
    // Mostly of the procedure that was called, or nothing would get far.
    let (procedure, _) = opening(argument >> 4);
    let status = match kind >> 4 & 3 {
        0 => Status::Ok,
        1 => Status::Error,
        _ => Status::Continue,
    };
    let stream = Header::stream(&procedure, serial, status);
    match kind % 8 {
        0..=2 => Header { kind: Kind::Reply, ..stream },
        3..=4 => stream,
        5 => Header { kind: Kind::Hole, ..stream },
        6 => Header::keepalive(i32::from(kind >> 6)),
        _ => Header { kind: Kind::Message, ..stream },
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path, time::Duration};

    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    type Target = fn(&[u8]);

    const TARGETS: [(&str, Target); 3] =
        [("framing", framing), ("answers", answers), ("conversation", conversation)];

    #[test]
    fn the_corpus_passes() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        for (name, target) in TARGETS {
            let mut inputs = 0;
            for entry in fs::read_dir(corpus.join(name)).unwrap() {
                target(&fs::read(entry.unwrap().path()).unwrap());
                inputs += 1;
            }
            assert!(inputs > 0, "no corpus for {name}");
        }
    }

    /// Seconds from `LIBVIRT_REMOTE_FUZZ_SECONDS`, by default a short drive; the seed is printed.
    #[test]
    fn no_random_bytes_break_it() {
        let seconds = env::var("LIBVIRT_REMOTE_FUZZ_SECONDS").ok().map(|text| text.parse().unwrap());
        let seed = env::var("LIBVIRT_REMOTE_FUZZ_SEED").ok().map_or(20_261_129, |text| text.parse().unwrap());
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let start = std::time::Instant::now();
        let mut rounds = 0_u64;
        while seconds.map_or(rounds < 3_000, |seconds| start.elapsed() < Duration::from_secs(seconds)) {
            for (_, target) in TARGETS {
                let mut data = vec![0; random.random_range(0..600)];
                random.fill(&mut data[..]);
                // Lengths are big-endian: most bytes that say something are small.
                if random.random() {
                    data.iter_mut().step_by(2).for_each(|byte| *byte %= 8);
                }
                target(&data);
            }
            rounds += 1;
        }
        println!("{rounds} rounds");
    }

    /// Packets and answers as a server sends them, so that mutations start from something that gets far.
    /// `LIBVIRT_REMOTE_FUZZ_CORPUS=DIR cargo test -p libvirt-remote --lib write_the_corpus` writes it anew.
    #[test]
    fn write_the_corpus() {
        let Some(folder) = env::var_os("LIBVIRT_REMOTE_FUZZ_CORPUS") else { return };
        let write = |target: &str, name: &str, data: &[u8]| {
            let folder = Path::new(&folder).join(target);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), data).unwrap();
        };
        let encoded = |kind: u8, value: &dyn Fn(&mut Encoder)| {
            let mut to = Encoder::new();
            value(&mut to);
            [&[kind], &to.finish()[..]].concat()
        };
        let domain = Domain { name: "guest".into(), uuid: crate::Uuid([7; 16]), id: Some(3) };
        let vol = StorageVol { pool: "default".into(), name: "a.img".into(), key: "/pool/a.img".into() };
        let fault = crate::fault::tests::no_domain();
        write("answers", "fault", &encoded(0, &|to| fault.encode(to).unwrap()));
        write("answers", "domain", &encoded(1, &|to| domain.encode(to).unwrap()));
        write("answers", "volume", &encoded(3, &|to| vol.encode(to).unwrap()));
        write(
            "answers",
            "volumes",
            &encoded(11, &|to| {
                to.list(&[vol.clone(), vol.clone()], MAX_LIST).unwrap();
                2_u32.encode(to).unwrap();
            }),
        );
        write("answers", "node-without-a-name", &[&[7], &[0xff; 160][..]].concat());
        let reply =
            Header { kind: Kind::Reply, ..Header::stream(&procedure::DOMAIN_LOOKUP_BY_NAME, 1, Status::Ok) };
        let mut to = Encoder::new();
        domain.encode(&mut to).unwrap();
        let two = [reply.with(to.finish()).bytes(), Header::keepalive(1).alone().bytes()].concat();
        write("framing", "reply-and-ping", &two);
        write(
            "framing",
            "stream",
            &Header::stream(&procedure::STORAGE_VOL_UPLOAD, 2, Status::Continue)
                .with(Bytes::from_static(b"data"))
                .bytes(),
        );
        write("framing", "huge", &u32::MAX.to_be_bytes());
        // Upload opened, answered, offered, finished, confirmed; download with data and end; a call given up.
        write("conversation", "upload", &[0, 0, 3, 0, 5, 1, 0, 0, 9, 1, 3, 0, 10, 1, 3, 0, 5, 1, 3, 0]);
        write(
            "conversation",
            "download",
            &[0, 1, 3, 0, 5, 17, 0, 0, 5, 17, 35, 2, 9, 9, 5, 17, 35, 0, 10, 1, 10, 1],
        );
        write(
            "conversation",
            "given-up",
            &[0, 4, 3, 0, 2, 1, 5, 65, 0, 0, 0, 0, 3, 0, 2, 2, 5, 2, 0, 0, 3, 0],
        );
    }
}
