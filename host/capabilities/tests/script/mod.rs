//! A server that takes HTTP requests and answers the next act of its script to each.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

/// What is answered to a request.
#[derive(Clone)]
pub enum Act {
    /// Code, headers, body; the connection is kept.
    Json(u16, Vec<String>, Value),
    /// These bytes; then the connection is closed.
    Raw(String),
    /// These bytes; then nothing, for ever.
    RawThenSilent(String),
    /// These bytes; then chunks until the client goes.
    RawThenFlood(String),
    /// Nothing: the connection is closed.
    Close,
    /// Nothing, for ever.
    Silent,
}

impl Act {
    pub fn json(code: u16, body: Value) -> Self {
        Self::Json(code, Vec::new(), body)
    }

    pub fn with(self, header: &str) -> Self {
        match self {
            Self::Json(code, mut headers, body) => {
                headers.push(header.to_owned());
                Self::Json(code, headers, body)
            }
            other => other,
        }
    }

    pub fn then_silent(self) -> Self {
        if let Self::Raw(text) = self { Self::RawThenSilent(text) } else { self }
    }

    pub fn then_flood(self) -> Self {
        if let Self::Raw(text) = self { Self::RawThenFlood(text) } else { self }
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Method and target.
    pub line: String,
    headers: Vec<(String, String)>,
    pub body: Value,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Default)]
struct State {
    script: VecDeque<Act>,
    seen: Vec<Seen>,
    connections: usize,
}

/// Ends when it is dropped.
pub struct Server {
    pub url: String,
    state: Arc<Mutex<State>>,
    accepting: AbortHandle,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Server {
    pub async fn start(script: impl IntoIterator<Item = Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { script: script.into_iter().collect(), ..State::default() }));
        let shared = state.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.lock().unwrap().connections += 1;
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Self { url, state, accepting: accepting.abort_handle() }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    pub fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        // A TLS greeting is no request: the next act is the answer to it.
        if stream.fill_buf().await.ok()?.first()?.is_ascii_uppercase() {
            let seen = read(&mut stream).await?;
            state.lock().unwrap().seen.push(seen);
        }
        let act = state.lock().unwrap().script.pop_front();
        match act.unwrap_or_else(|| Act::json(599, Value::String("the script has ended".into()))) {
            Act::Json(code, headers, body) => {
                let body = body.to_string();
                let mut text = format!("HTTP/1.1 {code} X\r\nContent-Length: {}\r\n", body.len());
                headers.iter().for_each(|header| text += &format!("{header}\r\n"));
                stream.write_all(format!("{text}\r\n{body}").as_bytes()).await.ok()?;
            }
            Act::Raw(text) => {
                stream.write_all(text.as_bytes()).await.ok()?;
                return stream.shutdown().await.ok();
            }
            Act::RawThenSilent(text) => {
                stream.write_all(text.as_bytes()).await.ok()?;
                std::future::pending::<()>().await;
            }
            Act::RawThenFlood(text) => {
                stream.write_all(text.as_bytes()).await.ok()?;
                loop {
                    stream.write_all(b"8\r\nxxxxxxxx\r\n").await.ok()?;
                }
            }
            Act::Close => return None,
            Act::Silent => std::future::pending::<()>().await,
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let pair =
        |line: &String| line.split_once(": ").map(|(key, value)| (key.to_lowercase(), value.to_owned()));
    let headers: Vec<(String, String)> = lines.iter().skip(1).filter_map(pair).collect();
    let length = headers
        .iter()
        .find(|(key, _)| key == "content-length")
        .map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Seen {
        line: lines[0].trim_end_matches(" HTTP/1.1").to_owned(),
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

/// What was logged.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
