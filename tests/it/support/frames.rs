//! HTTP/2 as no client would speak it: frames written and read by hand.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::TestApp;

pub(crate) const HEADERS: u8 = 0x1;
pub(crate) const RST_STREAM: u8 = 0x3;
const SETTINGS: u8 = 0x4;
const PING: u8 = 0x6;
pub(crate) const GOAWAY: u8 = 0x7;
pub(crate) const CONTINUATION: u8 = 0x9;

pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The error of a frame that ends a stream or the connection.
    pub(crate) fn error(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// A frame as bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The headers of a request, packed without any table: pairs of name and value.
pub(crate) fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| {
        // The length takes seven bits, and more bytes when it does not fit into them.
        let (mut bytes, mut rest) = (Vec::new(), text.len());
        if rest < 127 {
            bytes.push(u8::try_from(rest).unwrap());
        } else {
            bytes.push(127);
            rest -= 127;
            while rest >= 128 {
                bytes.push(u8::try_from(rest % 128 + 128).unwrap());
                rest /= 128;
            }
            bytes.push(u8::try_from(rest).unwrap());
        }
        [bytes, text.as_bytes().to_vec()].concat()
    };
    headers.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

/// The headers of a request to a path.
pub(crate) fn request(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let first =
        [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)];
    block(&[&first, more].concat())
}

/// A connection; it has said hello.
pub(crate) struct Frames {
    stream: TcpStream,
}

impl Frames {
    pub(crate) async fn connect(app: &TestApp) -> Self {
        let mut stream = TcpStream::connect(app.running.address).await.unwrap();
        stream.write_all(PREFACE).await.unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        Self { stream }
    }

    /// Sends frames; `false` when the server has hung up.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// The next frame that is about a request or the connection's end; `None` once the server has hung up.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            let frame = self.read().await?;
            match (frame.kind, frame.flags & 1) {
                (HEADERS | RST_STREAM | GOAWAY, _) => return Some(frame),
                // Whoever does not say that it is there is hung up on.
                (PING, 0) => drop(self.send(&self::frame(PING, 1, 0, &frame.payload)).await),
                (SETTINGS, 0) => drop(self.send(&self::frame(SETTINGS, 1, 0, &[])).await),
                _ => {}
            }
        }
    }

    /// The next such frame of a stream.
    pub(crate) async fn of_stream(&mut self, stream: u32) -> Frame {
        loop {
            let frame = self.next().await.unwrap();
            if frame.stream == stream {
                return frame;
            }
        }
    }

    /// Reads to the end without answering anything.
    pub(crate) async fn rest(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.read().await {
            frames.push(frame);
        }
        frames
    }

    async fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes(head[5..].try_into().unwrap()) & 0x7fff_ffff;
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }
}
