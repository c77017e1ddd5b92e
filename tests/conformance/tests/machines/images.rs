//! A server of the tiny guest's image, as slow as it is told.

use std::{
    env, fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// What a slow server sends at once.
const PORTION: usize = 256 * 1024;

#[derive(Clone)]
pub struct Images {
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    image: Vec<u8>,
    slow: AtomicBool,
    lengthless: AtomicBool,
    sent: AtomicUsize,
}

impl Images {
    pub fn serve() -> Self {
        let guest = env::var("MACHINES_GUEST").expect("MACHINES_GUEST is not set; use run.sh");
        let shared = Arc::new(Shared {
            image: fs::read(guest).unwrap(),
            slow: AtomicBool::new(false),
            lengthless: AtomicBool::new(false),
            sent: AtomicUsize::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/tiny.qcow2", listener.local_addr().unwrap());
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                thread::spawn(move || shared.answer(stream));
            }
        });
        Self { url, shared }
    }

    /// From now on a piece comes at a time, with a rest behind it.
    pub fn slow(&self, slow: bool) {
        self.shared.slow.store(slow, Ordering::SeqCst);
    }

    /// From now on nobody is told how long it is.
    pub fn lengthless(&self, lengthless: bool) {
        self.shared.lengthless.store(lengthless, Ordering::SeqCst);
    }

    /// How often the image was asked for.
    pub fn sent(&self) -> usize {
        self.shared.sent.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn answer(&self, mut stream: TcpStream) {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
            head.push(byte[0]);
        }
        let length = match self.lengthless.load(Ordering::SeqCst) {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", self.image.len()),
        };
        let answer = format!("HTTP/1.1 200 OK\r\n{length}Connection: close\r\n\r\n");
        if stream.write_all(answer.as_bytes()).is_err() || !head.starts_with(b"GET ") {
            return;
        }
        self.sent.fetch_add(1, Ordering::SeqCst);
        for portion in self.image.chunks(PORTION) {
            if stream.write_all(portion).is_err() {
                return;
            }
            if self.slow.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}
