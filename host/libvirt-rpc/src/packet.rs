//! Packets: a length, a header, a payload.
//!
//! The length counts itself. Everything that is wrong with a length or a header ends the connection: after it
//! nobody knows where the next packet begins.

use bytes::{Bytes, BytesMut};

use crate::{
    error::Violation,
    procedure::Procedure,
    xdr::{Decode, DecodeError, Decoder},
};

/// Length field and header.
pub(crate) const PREFIX: usize = 28;

/// The most that libvirt takes or sends, with the length field.
pub(crate) const MAX_PACKET: usize = 32 * 1024 * 1024 + 4;

/// What a packet of a stream carries at most: every server takes this much, and libvirt's own client sends
/// it.
pub(crate) const STREAM_CHUNK: usize = 262_120;

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Call,
    Reply,
    /// An event, or a ping.
    Message,
    Stream,
    /// A run of zeroes in a stream.
    Hole,
}

impl Kind {
    const fn number(self) -> u32 {
        match self {
            Self::Call => 0,
            Self::Reply => 1,
            Self::Message => 2,
            Self::Stream => 3,
            Self::Hole => 6,
        }
    }

    /// 4 and 5 carry file descriptors, which only a local client can ask for and this one never does.
    const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Call),
            1 => Some(Self::Reply),
            2 => Some(Self::Message),
            3 => Some(Self::Stream),
            6 => Some(Self::Hole),
            _ => None,
        }
    }
}

/// How it stands with a reply or a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Done; in a stream: it is complete.
    Ok,
    /// The payload is an error; in a stream: it is given up.
    Error,
    /// In a stream: here is more.
    Continue,
}

impl Status {
    const fn number(self) -> u32 {
        match self {
            Self::Ok => 0,
            Self::Error => 1,
            Self::Continue => 2,
        }
    }

    const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Ok),
            1 => Some(Self::Error),
            2 => Some(Self::Continue),
            _ => None,
        }
    }
}

/// What a packet says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub program: u32,
    pub version: u32,
    pub procedure: i32,
    pub kind: Kind,
    pub serial: u32,
    pub status: Status,
}

impl Header {
    pub(crate) fn call(procedure: &Procedure, serial: u32) -> Self {
        Self { kind: Kind::Call, ..Self::stream(procedure, serial, Status::Ok) }
    }

    pub(crate) fn stream(procedure: &Procedure, serial: u32, status: Status) -> Self {
        Self {
            program: procedure.program(),
            version: VERSION,
            procedure: procedure.number(),
            kind: Kind::Stream,
            serial,
            status,
        }
    }

    pub(crate) fn keepalive(procedure: i32) -> Self {
        Self {
            program: KEEPALIVE,
            version: VERSION,
            procedure,
            kind: Kind::Message,
            serial: 0,
            status: Status::Ok,
        }
    }

    /// The packet with this header and payload.
    pub(crate) fn with(self, payload: Bytes) -> Packet {
        Packet { header: self, payload }
    }

    /// The packet with this header and nothing else.
    pub(crate) fn alone(self) -> Packet {
        self.with(Bytes::new())
    }

    fn read(bytes: &[u8]) -> Result<Self, Violation> {
        let mut from = Decoder::new(bytes);
        let mut field = || u32::decode(&mut from).map_err(|_: DecodeError| Violation::Length { length: 0 });
        let (program, version, procedure) = (field()?, field()?, field()?.cast_signed());
        let (kind, serial, status) = (field()?, field()?, field()?);
        Ok(Self {
            program,
            version,
            procedure,
            kind: Kind::from_number(kind).ok_or(Violation::Kind { kind })?,
            serial,
            status: Status::from_number(status).ok_or(Violation::Status { status })?,
        })
    }
}

/// A packet to write. Its payload is not copied for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    header: Header,
    pub payload: Bytes,
}

impl Packet {
    /// What stands before the payload.
    pub(crate) fn head(&self) -> [u8; PREFIX] {
        let fields = [
            u32::try_from(PREFIX + self.payload.len()).unwrap_or(u32::MAX),
            self.header.program,
            self.header.version,
            self.header.procedure.cast_unsigned(),
            self.header.kind.number(),
            self.header.serial,
            self.header.status.number(),
        ];
        let mut head = [0; PREFIX];
        for (place, field) in head.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        head
    }

    /// All of it.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> BytesMut {
        [&self.head(), &self.payload[..]].concat().as_slice().into()
    }
}

/// The version of every program so far.
pub(crate) const VERSION: u32 = 1;

/// The program of pings.
pub(crate) const KEEPALIVE: u32 = 0x6b65_6570;

/// What to do with the front of what was read.
#[derive(Debug)]
pub(crate) enum Front {
    /// A packet, which is taken off.
    Packet(Header, Bytes),
    /// Its packet lacks at least so many bytes.
    Lacks(usize),
}

/// Takes the next packet off the front of `read`.
pub(crate) fn take(read: &mut BytesMut, max: usize) -> Result<Front, Violation> {
    let Some(field) = read.first_chunk::<4>() else {
        return Ok(Front::Lacks(PREFIX - read.len()));
    };
    let claimed = u32::from_be_bytes(*field);
    let length = usize::try_from(claimed).unwrap_or(usize::MAX);
    if !(PREFIX..=max).contains(&length) {
        return Err(Violation::Length { length: claimed });
    }
    if read.len() < length {
        return Ok(Front::Lacks(length - read.len()));
    }
    let mut packet = read.split_to(length).freeze();
    let prefix = packet.split_to(PREFIX);
    let header = Header::read(prefix.get(4..).unwrap_or_default())?;
    Ok(Front::Packet(header, packet))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        program: 0x2000_8086,
        version: 1,
        procedure: 23,
        kind: Kind::Reply,
        serial: 7,
        status: Status::Ok,
    };

    #[test]
    fn a_packet_is_read_back_as_it_was_made() {
        let mut read = HEADER.with(Bytes::from_static(b"body")).bytes();
        let Front::Packet(header, payload) = take(&mut read, MAX_PACKET).unwrap() else {
            panic!("no packet")
        };
        assert_eq!((header, &payload[..]), (HEADER, &b"body"[..]));
        assert!(read.is_empty());
    }

    #[test]
    fn a_packet_that_comes_byte_by_byte_is_taken_when_it_is_whole() {
        let whole = HEADER.with(Bytes::from_static(b"body")).bytes();
        for end in 0..whole.len() {
            let mut read = BytesMut::from(&whole[..end]);
            let Front::Lacks(missing) = take(&mut read, MAX_PACKET).unwrap() else { panic!("at {end}") };
            assert!((1..=whole.len() - end).contains(&missing), "{missing} at {end}");
            assert_eq!(read.len(), end, "nothing is taken off");
        }
    }

    #[test]
    fn a_length_that_no_packet_has_is_a_violation() {
        for length in [0, 3, 4, 27, 33_554_437, u32::MAX] {
            let mut read = BytesMut::from(&length.to_be_bytes()[..]);
            assert_eq!(take(&mut read, MAX_PACKET).unwrap_err(), Violation::Length { length });
        }
        let mut read = BytesMut::from(&33_554_436_u32.to_be_bytes()[..]);
        assert!(matches!(take(&mut read, MAX_PACKET), Ok(Front::Lacks(_))));
    }

    #[test]
    fn a_kind_or_a_status_that_is_not_known_is_a_violation() {
        let mut packet = HEADER.alone().bytes();
        packet[19] = 5;
        assert_eq!(take(&mut packet, MAX_PACKET).unwrap_err(), Violation::Kind { kind: 5 });
        let mut packet = HEADER.alone().bytes();
        packet[27] = 3;
        assert_eq!(take(&mut packet, MAX_PACKET).unwrap_err(), Violation::Status { status: 3 });
    }
}
