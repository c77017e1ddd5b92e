//! Who waits for what: a connection's state without its I/O.
//!
//! Everything that a server can do to us ends up in [`Book::receive`], and everything that we write comes out
//! of [`Book::next_packet`]. Both are plain functions, so that they can be tested and fuzzed without a
//! socket, a runtime or a clock.
//!
//! Nothing here grows at the server's will: an entry is made by a caller, goes with the caller, and what a
//! server sends for an entry that is gone is counted and dropped.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};

use crate::{
    error::{Cause, Error, StreamError, Violation},
    fault::Fault,
    flow::{Direction, Flow},
    packet::{Header, KEEPALIVE, Kind, Packet, Status, VERSION},
    procedure::{self, Procedure},
    xdr::Decoder,
};

/// Bytes of a stream that may come before its call is answered. Servers send a chunk or two.
const MAX_EARLY: usize = 4 * 1024 * 1024;

/// Calls that open a stream, were given up, and must still be answered so that their stream can be ended.
const MAX_ORPHANS: usize = 64;

const PING: i32 = 1;
const PONG: i32 = 2;

/// What a connection has seen besides answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Calls and streams that were begun.
    pub calls: u64,
    /// Packets for calls that had been given up or answered before, which were dropped.
    pub late: u64,
    /// Events, which were dropped.
    pub events: u64,
    /// Pings of the server, which were answered.
    pub pings: u64,
}

/// What a call is answered with.
#[derive(Debug)]
pub(crate) enum Answer {
    Reply(Bytes),
    /// The stream is in the book under the call's serial.
    Opened,
}

type Waiter = oneshot::Sender<Result<Answer, Error>>;

#[derive(Debug)]
struct Call {
    procedure: Procedure,
    /// Until the writer takes it: from then on the call may have reached the server.
    packet: Option<Packet>,
    /// None once the caller has given up.
    waiter: Option<Waiter>,
    /// The stream that it opens. A server may send the first of it before it answers the call.
    opens: Option<Flow>,
}

#[derive(Debug)]
enum Phase {
    Open,
    /// Nobody holds the connection any more: what waits is written, and then the farewell.
    Leaving,
    Left,
    Closed(Arc<Cause>),
}

#[derive(Debug)]
pub(crate) struct Book {
    phase: Phase,
    last_serial: u32,
    /// All serials have been used once.
    wrapped: bool,
    calls: HashMap<u32, Call>,
    orphans: usize,
    /// Calls whose packet waits.
    queue: VecDeque<u32>,
    flows: HashMap<u32, Flow>,
    /// Streams with packets that wait, in turn.
    turns: VecDeque<u32>,
    /// Ends of streams that were given up; at most one for each.
    aborts: VecDeque<Packet>,
    ping: bool,
    pong: bool,
    statistics: Statistics,
}

impl Book {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Open,
            last_serial: 0,
            wrapped: false,
            calls: HashMap::new(),
            orphans: 0,
            queue: VecDeque::new(),
            flows: HashMap::new(),
            turns: VecDeque::new(),
            aborts: VecDeque::new(),
            ping: false,
            pong: false,
            statistics: Statistics::default(),
        }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.statistics
    }

    pub(crate) fn closed(&self) -> Option<Arc<Cause>> {
        match &self.phase {
            Phase::Open | Phase::Leaving | Phase::Left => None,
            Phase::Closed(cause) => Some(cause.clone()),
        }
    }

    /// Begins a call.
    pub(crate) fn begin(
        &mut self,
        procedure: Procedure,
        arguments: Bytes,
        opens: Option<Direction>,
    ) -> Result<(u32, oneshot::Receiver<Result<Answer, Error>>), Error> {
        if let Some(cause) = self.closed() {
            return Err(Error::Closed { call: procedure.name(), cause, sent: false });
        }
        let serial = self.next_serial();
        let packet = Some(Header::call(&procedure, serial).with(arguments));
        let (waiter, answer) = oneshot::channel();
        let opens = opens.map(|direction| Flow::new(procedure, serial, direction));
        self.calls.insert(serial, Call { procedure, packet, waiter: Some(waiter), opens });
        self.queue.push_back(serial);
        self.statistics.calls += 1;
        Ok((serial, answer))
    }

    /// Nobody waits for this call, or uses this stream, any more.
    pub(crate) fn give_up(&mut self, serial: u32) -> Result<(), Violation> {
        if let Some(mut flow) = self.flows.remove(&serial) {
            if flow.give_up() {
                self.aborts.push_back(flow.abort());
            }
            return Ok(());
        }
        let Some(mut call) = self.calls.remove(&serial) else { return Ok(()) };
        if call.packet.is_some() {
            self.queue.retain(|&queued| queued != serial);
        } else if let Some(flow) = &mut call.opens {
            // Its stream can be ended only once it is open; until then what comes of it is dropped.
            flow.give_up();
            call.waiter = None;
            self.calls.insert(serial, call);
            self.orphans += 1;
            if self.orphans > MAX_ORPHANS {
                return Err(Violation::Unanswered { unanswered: self.orphans });
            }
        }
        Ok(())
    }

    /// The next packet to write, whole. What it belongs to may have reached the server from now on.
    pub(crate) fn next_packet(&mut self) -> Option<Packet> {
        if std::mem::take(&mut self.pong) {
            return Some(Header::keepalive(PONG).alone());
        }
        if std::mem::take(&mut self.ping) {
            return Some(Header::keepalive(PING).alone());
        }
        if let Some(abort) = self.aborts.pop_front() {
            return Some(abort);
        }
        while let Some(serial) = self.queue.pop_front() {
            if let Some(packet) = self.calls.get_mut(&serial).and_then(|call| call.packet.take()) {
                return Some(packet);
            }
        }
        while let Some(serial) = self.turns.pop_front() {
            let Some(flow) = self.flows.get_mut(&serial) else { continue };
            let packet = flow.outgoing();
            if flow.has_outgoing() {
                self.turns.push_back(serial);
            }
            if packet.is_some() {
                return packet;
            }
        }
        match self.phase {
            Phase::Leaving => {
                self.phase = Phase::Left;
                let serial = self.next_serial();
                Some(Header::call(&procedure::CONNECT_CLOSE, serial).alone())
            }
            Phase::Open | Phase::Left | Phase::Closed(_) => None,
        }
    }

    /// A packet came. Answers the stream that holds data because of it.
    pub(crate) fn receive(&mut self, header: Header, payload: Bytes) -> Result<Option<u32>, Violation> {
        match header.kind {
            Kind::Message if header.program == KEEPALIVE => {
                if header.procedure == PING {
                    self.pong = true;
                    self.statistics.pings += 1;
                }
                Ok(None)
            }
            Kind::Message => {
                self.statistics.events += 1;
                Ok(None)
            }
            Kind::Reply => self.answer(header, payload).map(|()| None),
            Kind::Stream | Kind::Hole => self.stream(header, payload),
            Kind::Call => Err(Violation::Kind { kind: 0 }),
        }
    }

    fn answer(&mut self, header: Header, payload: Bytes) -> Result<(), Violation> {
        let serial = header.serial;
        // Before it is written, a call has no answer.
        let Some(call) = self.calls.get(&serial).filter(|call| call.packet.is_none()) else {
            return self.late(serial);
        };
        check(&header, &call.procedure)?;
        let name = call.procedure.name();
        let answer = match header.status {
            Status::Ok if call.opens.is_some() => Ok(Answer::Opened),
            Status::Ok => Ok(Answer::Reply(payload)),
            Status::Error => Err(match Decoder::whole::<Fault>(&payload) {
                Ok(fault) => Error::Libvirt { call: name, fault: Box::new(fault) },
                Err(why) => Error::Answer { call: name, why },
            }),
            Status::Continue => return Err(Violation::Status { status: 2 }),
        };
        let Some(Call { waiter, opens, .. }) = self.calls.remove(&serial) else { return Ok(()) };
        let opened = opens.filter(|_| answer.is_ok());
        let Some(waiter) = waiter else {
            self.statistics.late += 1;
            self.orphans = self.orphans.saturating_sub(1);
            self.aborts.extend(opened.filter(|flow| !flow.confirmed()).map(|flow| flow.abort()));
            return Ok(());
        };
        if let Some(flow) = opened {
            self.flows.insert(serial, flow);
        }
        // Whoever gives up says so under the same lock, so there is somebody.
        let _ = waiter.send(answer);
        Ok(())
    }

    fn stream(&mut self, header: Header, payload: Bytes) -> Result<Option<u32>, Violation> {
        let serial = header.serial;
        if let Some(call) = self.calls.get_mut(&serial).filter(|call| call.packet.is_none()) {
            check(&header, &call.procedure)?;
            let flow = call.opens.as_mut().filter(|_| header.kind == Kind::Stream);
            let flow = flow.ok_or(Violation::NoStream { serial })?;
            flow.hear(header.status, payload)?;
            // Nobody can take it yet, so nobody can be waited for.
            return if flow.held() > MAX_EARLY { Err(Violation::NoStream { serial }) } else { Ok(None) };
        }
        let Some(flow) = self.flows.get_mut(&serial) else {
            return self.late(serial).map(|()| None);
        };
        check(&header, flow.procedure())?;
        if header.kind == Kind::Hole {
            if flow.break_off(StreamError::Hole) {
                self.aborts.push_back(flow.abort());
            }
            return Ok(None);
        }
        flow.hear(header.status, payload)?;
        Ok((flow.held() > 0).then_some(serial))
    }

    /// An answer that nobody waits for: to a call that was given up, or a second one. To a call that was
    /// never made there is none.
    fn late(&mut self, serial: u32) -> Result<(), Violation> {
        let made = serial != 0 && (self.wrapped || serial <= self.last_serial);
        if !made || self.calls.get(&serial).is_some_and(|call| call.packet.is_some()) {
            return Err(Violation::Serial { serial });
        }
        self.statistics.late += 1;
        Ok(())
    }

    /// Fails everything that waits, once.
    pub(crate) fn close(&mut self, cause: Arc<Cause>) {
        if self.closed().is_some() {
            return;
        }
        for (_, call) in self.calls.drain() {
            let error = Error::Closed {
                call: call.procedure.name(),
                cause: cause.clone(),
                sent: call.packet.is_none(),
            };
            if let Some(waiter) = call.waiter {
                let _ = waiter.send(Err(error));
            }
        }
        for flow in self.flows.values_mut() {
            flow.cut(Error::Closed { call: flow.procedure().name(), cause: cause.clone(), sent: true });
        }
        self.queue.clear();
        self.turns.clear();
        self.aborts.clear();
        self.phase = Phase::Closed(cause);
    }

    /// Nobody holds the connection any more.
    pub(crate) fn leave(&mut self) {
        if matches!(self.phase, Phase::Open) {
            self.phase = Phase::Leaving;
        }
    }

    /// Whether the farewell was handed out.
    pub(crate) fn left(&self) -> bool {
        matches!(self.phase, Phase::Left)
    }

    /// Asks the server for a sign of life.
    pub(crate) fn ping(&mut self) {
        self.ping = true;
    }

    /// Ends a stream here, for a reason that its user shall read.
    pub(crate) fn break_off(&mut self, serial: u32, why: StreamError) {
        if let Some(flow) = self.flows.get_mut(&serial)
            && flow.break_off(why)
        {
            self.aborts.push_back(flow.abort());
        }
    }

    /// Tells the server that a stream is given up, but keeps it until the server has confirmed it.
    pub(crate) fn abort(&mut self, serial: u32) {
        if let Some(flow) = self.flows.get_mut(&serial)
            && flow.give_up()
        {
            self.aborts.push_back(flow.abort());
        }
    }

    /// Works on a stream, and gives it its turn if it now has something to write; tells whether it has.
    pub(crate) fn with_flow<R>(
        &mut self,
        serial: u32,
        work: impl FnOnce(&mut Flow) -> R,
    ) -> Option<(R, bool)> {
        let flow = self.flows.get_mut(&serial)?;
        let had = flow.has_outgoing();
        let result = work(flow);
        let has = flow.has_outgoing();
        if has && !had {
            self.turns.push_back(serial);
        }
        Some((result, has))
    }

    /// Whether the server's last packet made something due.
    pub(crate) fn urgent(&self) -> bool {
        self.pong || !self.aborts.is_empty()
    }

    /// Bytes of this stream that nobody took yet.
    pub(crate) fn held(&self, serial: u32) -> usize {
        self.flows.get(&serial).map_or(0, Flow::held)
    }

    pub(crate) fn wake(&self, serial: u32) -> Option<Arc<Notify>> {
        self.flows.get(&serial).map(Flow::wake)
    }

    fn next_serial(&mut self) -> u32 {
        loop {
            // 0 is the serial of what belongs to no call.
            self.last_serial = self.last_serial.checked_add(1).unwrap_or_else(|| {
                self.wrapped = true;
                1
            });
            if !self.calls.contains_key(&self.last_serial) && !self.flows.contains_key(&self.last_serial) {
                return self.last_serial;
            }
        }
    }

    /// What is kept, for tests that look for growth.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn size(&self) -> usize {
        let early = self.calls.values().filter_map(|call| call.opens.as_ref());
        let held: usize = self.flows.values().chain(early).map(Flow::held).sum();
        self.calls.len() + self.queue.len() + self.flows.len() + self.turns.len() + self.aborts.len() + held
    }
}

/// Whether a packet is of the procedure that its serial stands for.
fn check(header: &Header, called: &Procedure) -> Result<(), Violation> {
    let same = header.program == called.program()
        && header.version == VERSION
        && header.procedure == called.number();
    if same {
        return Ok(());
    }
    Err(Violation::Procedure {
        serial: header.serial,
        called: called.number(),
        answered: header.procedure,
        program: header.program,
        version: header.version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(book: &mut Book) -> (u32, oneshot::Receiver<Result<Answer, Error>>) {
        book.begin(procedure::CONNECT_GET_TYPE, Bytes::new(), None).unwrap()
    }

    fn reply(serial: u32) -> Header {
        Header { kind: Kind::Reply, ..Header::call(&procedure::CONNECT_GET_TYPE, serial) }
    }

    #[test]
    fn after_the_last_serial_come_the_first_again_without_0_and_without_those_in_use() {
        let mut book = Book::new();
        let (first, mut waiting) = begin(&mut book);
        assert_eq!(first, 1);
        book.next_packet();
        book.last_serial = u32::MAX - 1;
        assert_eq!(begin(&mut book).0, u32::MAX);
        assert_eq!(begin(&mut book).0, 2, "1 still waits");
        // One from before the turn is late, not unheard of.
        assert_eq!(book.receive(reply(u32::MAX - 5), Bytes::new()), Ok(None));
        assert_eq!(book.statistics.late, 1);
        assert_eq!(book.receive(reply(1), Bytes::new()), Ok(None));
        assert!(matches!(waiting.try_recv(), Ok(Ok(Answer::Reply(_)))));
    }

    #[test]
    fn a_call_has_no_answer_before_it_is_written() {
        let mut book = Book::new();
        let (serial, _answer) = begin(&mut book);
        assert_eq!(book.receive(reply(serial), Bytes::new()), Err(Violation::Serial { serial }));
    }

    #[test]
    fn a_call_given_up_before_it_is_written_leaves_nothing() {
        let mut book = Book::new();
        for opens in [None, Some(Direction::Up)] {
            let (serial, _) = book.begin(procedure::STORAGE_VOL_UPLOAD, Bytes::new(), opens).unwrap();
            book.give_up(serial).unwrap();
            assert_eq!((book.size(), book.next_packet()), (0, None));
        }
    }

    #[test]
    fn a_stream_of_which_megabytes_come_before_its_call_is_answered_is_none() {
        let mut book = Book::new();
        let opens = Some(Direction::Down);
        let (serial, _answer) = book.begin(procedure::STORAGE_VOL_DOWNLOAD, Bytes::new(), opens).unwrap();
        book.next_packet();
        let packet = Header::stream(&procedure::STORAGE_VOL_DOWNLOAD, serial, Status::Continue);
        let chunk = Bytes::from_static(&[7; 262_120]);
        let taken = (0..100).take_while(|_| book.receive(packet, chunk.clone()).is_ok()).count();
        assert_eq!(taken, MAX_EARLY / (chunk.len() + 64));
    }

    #[test]
    fn what_a_server_sends_for_nobody_is_not_kept() {
        let mut book = Book::new();
        let opens = Some(Direction::Down);
        let (serial, _answer) = book.begin(procedure::STORAGE_VOL_DOWNLOAD, Bytes::new(), opens).unwrap();
        book.next_packet();
        let packet = Header::stream(&procedure::STORAGE_VOL_DOWNLOAD, serial, Status::Continue);
        book.give_up(serial).unwrap();
        let before = book.size();
        for _ in 0..100 {
            book.receive(packet, Bytes::from_static(b"data")).unwrap();
            book.receive(Header::keepalive(PING), Bytes::new()).unwrap();
        }
        assert_eq!(book.size(), before);
    }
}
