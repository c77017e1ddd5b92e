//! A server whose every byte the test decides. It builds packets by hand, so that a fault in the client's own
//! building of packets can't hide itself.

use std::{future::Future, time::Duration};

use libvirt_remote::{
    Connection, Domain, Error, ErrorCode, ErrorDomain, ErrorLevel, Fault, Options, StorageVol, Uuid,
    xdr::{Decode, Decoder, Encode, Encoder},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf},
    task::JoinHandle,
};

pub const REMOTE: u32 = 0x2000_8086;
pub const KEEPALIVE: u32 = 0x6b65_6570;

pub const CALL: u32 = 0;
pub const REPLY: u32 = 1;
pub const MESSAGE: u32 = 2;
pub const STREAM: u32 = 3;
pub const HOLE: u32 = 6;

pub const OK: u32 = 0;
pub const ERROR: u32 = 1;
pub const CONTINUE: u32 = 2;

pub const LOOKUP: i32 = 23;
pub const HOSTNAME: i32 = 59;
pub const CLOSE: i32 = 2;
pub const UPLOAD: i32 = 208;
pub const DOWNLOAD: i32 = 209;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    pub program: u32,
    pub version: u32,
    pub procedure: i32,
    pub kind: u32,
    pub serial: u32,
    pub status: u32,
    pub payload: Vec<u8>,
}

impl Packet {
    /// The answer to this call, done and empty.
    pub fn reply(&self) -> Self {
        Self { kind: REPLY, status: OK, payload: Vec::new(), ..self.clone() }
    }

    /// A packet of the stream that this call opened.
    pub fn stream(&self, status: u32, payload: &[u8]) -> Self {
        Self { kind: STREAM, status, payload: payload.to_vec(), ..self.clone() }
    }

    pub fn with(self, value: &impl Encode) -> Self {
        Self { payload: encoded(value), ..self }
    }

    pub fn failed(self, fault: &Fault) -> Self {
        Self { status: ERROR, ..self }.with(fault)
    }

    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(28 + self.payload.len()).unwrap();
        let procedure = self.procedure.cast_unsigned();
        [length, self.program, self.version, procedure, self.kind, self.serial, self.status]
            .iter()
            .flat_map(|field| field.to_be_bytes())
            .chain(self.payload.iter().copied())
            .collect()
    }

    /// The call's arguments.
    pub fn arguments<T: Decode>(&self) -> T {
        Decoder::whole(&self.payload).unwrap()
    }
}

pub struct Server {
    pub reads: ReadHalf<DuplexStream>,
    pub writes: WriteHalf<DuplexStream>,
}

impl Server {
    /// A connection that is open, and its server.
    pub async fn open() -> (Connection, Self) {
        Self::open_with(Options::default()).await
    }

    pub async fn open_with(options: Options) -> (Connection, Self) {
        let (opening, mut server) = Self::opening(options);
        let call = server.next().await;
        assert_eq!((call.program, call.version, call.procedure), (REMOTE, 1, 66), "authentication list");
        server.send(&call.reply().with(&(1_u32, 0_i32))).await;
        let call = server.next().await;
        assert_eq!((call.procedure, call.arguments()), (1, (Some("qemu:///system".to_owned()), 0_u32)));
        server.send(&call.reply()).await;
        (opening.await.unwrap().unwrap(), server)
    }

    /// A connection of which nothing has been answered yet.
    pub fn opening(options: Options) -> (JoinHandle<Result<Connection, Error>>, Self) {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let (reads, writes) = tokio::io::split(server);
        (tokio::spawn(Connection::open_with(client, "qemu:///system", options)), Self { reads, writes })
    }

    /// The next packet that the client sent.
    pub async fn next(&mut self) -> Packet {
        self.try_next().await.expect("the client closed")
    }

    pub async fn try_next(&mut self) -> Option<Packet> {
        let length = self.reads.read_u32().await.ok()?;
        let mut field = [0; 6];
        for field in &mut field {
            *field = self.reads.read_u32().await.unwrap();
        }
        let mut payload = vec![0; usize::try_from(length).unwrap() - 28];
        self.reads.read_exact(&mut payload).await.unwrap();
        let [program, version, procedure, kind, serial, status] = field;
        Some(Packet { program, version, procedure: procedure.cast_signed(), kind, serial, status, payload })
    }

    /// Whether the client has nothing to say, as far as it got by now.
    pub async fn silent(&mut self) -> bool {
        let mut byte = [0];
        settle().await;
        tokio::time::timeout(Duration::ZERO, self.reads.read(&mut byte)).await.is_err()
    }

    pub async fn send(&mut self, packet: &Packet) {
        self.raw(&packet.bytes()).await;
    }

    pub async fn raw(&mut self, bytes: &[u8]) {
        self.writes.write_all(bytes).await.unwrap();
    }

    /// Takes a call, opens its stream, and hands both sides out.
    pub async fn stream<T>(&mut self, opening: impl Future<Output = Result<T, Error>>) -> (T, Packet) {
        let answering = async {
            let call = self.next().await;
            self.send(&call.reply()).await;
            call
        };
        let (opened, call) = tokio::join!(opening, answering);
        (opened.unwrap(), call)
    }
}

/// Lets every task go as far as it can without time passing.
pub async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Begins to wait for a call in the background.
pub fn lookup(libvirt: &Connection, name: &str) -> JoinHandle<Result<Domain, Error>> {
    let (libvirt, name) = (libvirt.clone(), name.to_owned());
    tokio::spawn(async move { libvirt.domain_lookup_by_name(&name).await })
}

pub fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut to = Encoder::new();
    value.encode(&mut to).unwrap();
    to.finish().to_vec()
}

pub fn domain(name: &str) -> Domain {
    Domain { name: name.into(), uuid: Uuid([7; 16]), id: None }
}

pub fn vol() -> StorageVol {
    StorageVol { pool: "default".into(), name: "a.img".into(), key: "/pool/a.img".into() }
}

pub fn fault(code: ErrorCode, message: &str) -> Fault {
    Fault {
        code,
        domain: ErrorDomain::STREAMS,
        level: ErrorLevel::ERROR,
        message: message.into(),
        str1: Some("%s".into()),
        str2: Some(message.into()),
        str3: None,
        int1: 28,
        int2: -1,
    }
}
