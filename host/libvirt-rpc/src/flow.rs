//! How far a stream is, without its I/O.
//!
//! Two sides end a stream, each in its own way, so each has a state. What waits in either direction is
//! bounded: the sender waits for room, and the reader of the connection pauses while a flow holds too much.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::{
    error::{Error, StreamError, Violation},
    fault::Fault,
    packet::{Header, Packet, Status},
    procedure::Procedure,
    xdr::Decoder,
};

/// Packets of one stream that may wait to be written.
const OUTGOING: usize = 2;

/// What a chunk that waits costs beside its bytes, so that a flood of tiny ones is bounded too.
const PER_CHUNK: usize = 64;

/// Which way data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
    Both,
}

impl Direction {
    fn comes(self) -> bool {
        match self {
            Self::Up => false,
            Self::Down | Self::Both => true,
        }
    }
}

/// Our side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ours {
    Open,
    /// We said that all was sent, or received.
    Finishing,
    GivenUp,
}

/// The server's side.
#[derive(Debug, Clone)]
enum Theirs {
    Open,
    /// It sent all that it has.
    Drained,
    /// It confirmed our end.
    Done,
    Failed(Error),
}

/// What a receiver finds.
#[derive(Debug)]
pub(crate) enum Next {
    Chunk(Bytes),
    End,
    Wait,
}

#[derive(Debug)]
pub(crate) struct Flow {
    procedure: Procedure,
    serial: u32,
    direction: Direction,
    outgoing: VecDeque<Packet>,
    incoming: VecDeque<Bytes>,
    held: usize,
    ours: Ours,
    theirs: Theirs,
    wake: Arc<Notify>,
}

impl Flow {
    pub(crate) fn new(procedure: Procedure, serial: u32, direction: Direction) -> Self {
        Self {
            procedure,
            serial,
            direction,
            outgoing: VecDeque::new(),
            incoming: VecDeque::new(),
            held: 0,
            ours: Ours::Open,
            theirs: Theirs::Open,
            wake: Arc::default(),
        }
    }

    /// Told whenever something changed.
    pub(crate) fn wake(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    pub(crate) fn procedure(&self) -> &Procedure {
        &self.procedure
    }

    /// Bytes that nobody took yet.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// A packet of this stream came.
    pub(crate) fn hear(&mut self, status: Status, payload: Bytes) -> Result<(), Violation> {
        match (status, self.ours) {
            // What was on its way when we ended it.
            (Status::Continue, Ours::GivenUp) => {}
            (Status::Continue, Ours::Finishing) if self.direction == Direction::Both => {}
            (Status::Continue, Ours::Open | Ours::Finishing) => self.take(payload)?,
            (Status::Ok, Ours::Finishing | Ours::GivenUp) => self.theirs = Theirs::Done,
            (Status::Ok, Ours::Open) => self.fail(StreamError::Ended),
            (Status::Error, Ours::GivenUp) => self.theirs = Theirs::Done,
            (Status::Error, Ours::Open | Ours::Finishing) => {
                let call = self.procedure.name();
                self.outgoing.clear();
                self.theirs = Theirs::Failed(match Decoder::whole::<Fault>(&payload) {
                    Ok(fault) => Error::Libvirt { call, fault: Box::new(fault) },
                    Err(why) => Error::Answer { call, why },
                });
            }
        }
        self.wake.notify_waiters();
        Ok(())
    }

    fn take(&mut self, payload: Bytes) -> Result<(), Violation> {
        match self.theirs {
            Theirs::Open if payload.is_empty() => self.theirs = Theirs::Drained,
            Theirs::Open if self.direction.comes() => {
                self.held = self.held.saturating_add(payload.len()).saturating_add(PER_CHUNK);
                self.incoming.push_back(payload);
            }
            Theirs::Open | Theirs::Drained => return Err(Violation::Data { serial: self.serial }),
            Theirs::Done | Theirs::Failed(_) => {}
        }
        Ok(())
    }

    fn fail(&mut self, why: StreamError) {
        self.outgoing.clear();
        self.theirs = Theirs::Failed(Error::Stream { call: self.procedure.name(), why });
    }

    /// Ends it here for a reason that its user shall read. True if the server must be told.
    pub(crate) fn break_off(&mut self, why: StreamError) -> bool {
        let tell = self.must_tell();
        if tell {
            self.incoming.clear();
            self.held = 0;
            self.fail(why);
            self.ours = Ours::GivenUp;
        }
        self.wake.notify_waiters();
        tell
    }

    /// Ends it here because its user wants so. True if the server must be told.
    pub(crate) fn give_up(&mut self) -> bool {
        let tell = self.must_tell();
        self.ours = Ours::GivenUp;
        self.outgoing.clear();
        self.incoming.clear();
        self.held = 0;
        tell
    }

    /// Whether the server still holds the stream open.
    fn must_tell(&self) -> bool {
        let over = match self.theirs {
            Theirs::Open | Theirs::Drained => false,
            Theirs::Done | Theirs::Failed(_) => true,
        };
        match self.ours {
            Ours::Open => !over,
            // The end that was written already ends it.
            Ours::Finishing => !over && !self.outgoing.is_empty(),
            Ours::GivenUp => false,
        }
    }

    /// The connection is gone.
    pub(crate) fn cut(&mut self, error: Error) {
        self.outgoing.clear();
        match self.theirs {
            Theirs::Open | Theirs::Drained => self.theirs = Theirs::Failed(error),
            Theirs::Done | Theirs::Failed(_) => {}
        }
        self.wake.notify_waiters();
    }

    /// Queues a packet with data; false when there is no room.
    pub(crate) fn offer(&mut self, packet: &Packet) -> Result<bool, Error> {
        match (&self.theirs, self.ours) {
            (Theirs::Failed(error), _) => Err(error.clone()),
            (Theirs::Done, _) | (_, Ours::Finishing | Ours::GivenUp) => Err(self.over()),
            (Theirs::Open | Theirs::Drained, Ours::Open) if self.outgoing.len() >= OUTGOING => Ok(false),
            (Theirs::Open | Theirs::Drained, Ours::Open) => {
                self.outgoing.push_back(packet.clone());
                Ok(true)
            }
        }
    }

    /// The next packet to write.
    pub(crate) fn outgoing(&mut self) -> Option<Packet> {
        let packet = self.outgoing.pop_front()?;
        self.wake.notify_waiters();
        Some(packet)
    }

    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// What a receiver finds now.
    pub(crate) fn next(&mut self) -> Result<Next, Error> {
        if let Some(chunk) = self.incoming.pop_front() {
            self.held = self.held.saturating_sub(chunk.len()).saturating_sub(PER_CHUNK);
            return Ok(Next::Chunk(chunk));
        }
        match (&self.theirs, self.ours) {
            (Theirs::Failed(error), _) => Err(error.clone()),
            (_, Ours::GivenUp) => Err(self.over()),
            (Theirs::Open, Ours::Open | Ours::Finishing) => Ok(Next::Wait),
            (Theirs::Drained | Theirs::Done, Ours::Open | Ours::Finishing) => Ok(Next::End),
        }
    }

    /// Says that this side is complete, once, and whether the server has confirmed it.
    pub(crate) fn finish(&mut self) -> Result<bool, Error> {
        match (&self.theirs, self.ours) {
            (Theirs::Failed(error), _) => Err(error.clone()),
            (_, Ours::GivenUp) => Err(self.over()),
            (Theirs::Done, _) => Ok(true),
            (Theirs::Open | Theirs::Drained, Ours::Finishing) => Ok(false),
            (Theirs::Open | Theirs::Drained, Ours::Open) => {
                self.ours = Ours::Finishing;
                self.outgoing.push_back(self.end(Status::Ok));
                Ok(false)
            }
        }
    }

    /// Whether the server has confirmed that this was given up, or was done with it anyway.
    pub(crate) fn confirmed(&self) -> bool {
        match self.theirs {
            Theirs::Open | Theirs::Drained => false,
            Theirs::Done | Theirs::Failed(_) => true,
        }
    }

    /// The packet that gives it up.
    pub(crate) fn abort(&self) -> Packet {
        self.end(Status::Error)
    }

    fn end(&self, status: Status) -> Packet {
        Header::stream(&self.procedure, self.serial, status).alone()
    }

    fn over(&self) -> Error {
        Error::Stream { call: self.procedure.name(), why: StreamError::Over }
    }
}
