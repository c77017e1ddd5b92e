//! A server of images that does what each path says.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Listens on this machine alone.
pub struct Images {
    pub port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Images {
    pub async fn new(image: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (image, heads) = (Arc::new(image), Arc::<Mutex<Vec<String>>>::default());
        let noted = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (image, heads) = (Arc::clone(&image), Arc::clone(&noted));
                tokio::spawn(async move {
                    let _ = serve(stream, &image, &heads).await;
                });
            }
        });
        Self { port, heads }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// What was asked for this path.
    pub fn asked(&self, path: &str) -> usize {
        let begin = format!("/{path} ");
        self.heads.lock().unwrap().iter().filter(|head| head.contains(&begin)).count()
    }
}

async fn serve(mut stream: TcpStream, image: &[u8], heads: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let byte = stream.read_u8().await?;
        if !byte.is_ascii() || byte == 0x16 {
            return Ok(()); // a greeting of TLS
        }
        head.push(byte.into());
    }
    heads.lock().unwrap().push(head.clone());
    let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
    let from: usize = head
        .to_ascii_lowercase()
        .split_once("range: bytes=")
        .and_then(|(_, rest)| rest.split('-').next()?.parse().ok())
        .unwrap_or(0);
    let length = image.len();
    let half = from + (length - from) / 2;
    match path.as_str() {
        "whole" => {
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nETag: \"1\"\r\n\r\n");
            stream.write_all(answer.as_bytes()).await?;
            if head.starts_with("GET") {
                stream.write_all(image).await?;
            }
        }
        "unsized" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await?;
            stream.write_all(image).await?;
        }
        // Three times only a part.
        "cut" => {
            let answer = match from {
                0 => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nETag: \"1\"\r\n\r\n"),
                _ => format!(
                    "HTTP/1.1 206 Partial\r\nContent-Length: {}\r\nContent-Range: bytes {from}-{}/{length}\r\nETag: \"1\"\r\n\r\n",
                    length - from,
                    length - 1
                ),
            };
            stream.write_all(answer.as_bytes()).await?;
            let times = heads.lock().unwrap().iter().filter(|head| head.contains("/cut ")).count();
            stream.write_all(&image[from..if times < 4 { half } else { length }]).await?;
        }
        // Another image meanwhile.
        "changed" => {
            let answer = match from {
                0 => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nETag: \"1\"\r\n\r\n"),
                _ => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nETag: \"2\"\r\n\r\n"),
            };
            stream.write_all(answer.as_bytes()).await?;
            stream.write_all(&image[..half]).await?;
        }
        "short" => {
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", length * 2);
            stream.write_all(answer.as_bytes()).await?;
            stream.write_all(image).await?;
        }
        "stall" => {
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(answer.as_bytes()).await?;
            stream.write_all(&image[..half]).await?;
            // Until the other end has had enough.
            let _ = stream.read_u8().await;
        }
        "inside" => {
            stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n").await?;
        }
        "loop" => {
            stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n").await?;
        }
        "moved" => {
            stream.write_all(b"HTTP/1.1 301 Moved\r\nLocation: whole\r\nContent-Length: 0\r\n\r\n").await?;
        }
        _ => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await?,
    }
    stream.shutdown().await
}
