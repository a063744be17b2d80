//! Reads server-sent events as a client would.

use std::pin::Pin;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use serde_json::Value;

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SseEvent {
    /// Its place, when it is durable.
    pub(crate) id: Option<i64>,
    /// Its name.
    pub(crate) name: String,
    /// Its data.
    pub(crate) data: Value,
}

/// A stream that is read one event at a time; dropping it hangs up.
pub(crate) struct SseReader {
    bytes: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    buffer: Vec<u8>,
}

impl SseReader {
    /// Reads a response, which must be a stream of events.
    pub(crate) fn of(response: reqwest::Response) -> Self {
        assert_eq!(response.status().as_u16(), 200);
        let content_type = response.headers().get("content-type").cloned();
        assert_eq!(content_type.unwrap(), "text/event-stream");
        Self { bytes: Box::pin(response.bytes_stream()), buffer: Vec::new() }
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<SseEvent> {
        loop {
            let event = std::iter::from_fn(|| self.block()).find_map(|block| parse(&block));
            if event.is_some() {
                return event;
            }
            let chunk = self.bytes.next().await?;
            self.buffer.extend_from_slice(&chunk.expect("the stream is not broken off"));
        }
    }

    /// The next whole block that has arrived.
    fn block(&mut self) -> Option<String> {
        let end = self.buffer.windows(2).position(|pair| pair == b"\n\n")?;
        let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
        Some(String::from_utf8(block).unwrap())
    }

    /// Everything up to the first event of a name, that one included; it must come.
    pub(crate) async fn until(&mut self, name: &str) -> Vec<SseEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
            if events.last().is_some_and(|event| event.name == name) {
                return events;
            }
        }
        panic!("the stream ended before `{name}`: {events:?}");
    }

    /// Everything that is left.
    pub(crate) async fn rest(&mut self) -> Vec<SseEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

/// Reads a stream until it ends, or until so many durable events have come: then it is cut.
pub(crate) async fn read_stream(response: reqwest::Response, durable: usize) -> Vec<SseEvent> {
    let (mut reader, mut events) = (SseReader::of(response), Vec::new());
    let mut left = durable;
    while left > 0 {
        let Some(event) = reader.next().await else { break };
        left -= usize::from(event.id.is_some());
        events.push(event);
    }
    events
}

fn parse(block: &str) -> Option<SseEvent> {
    let field = |name: &str| {
        block
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
    };
    Some(SseEvent {
        id: field("id").map(|id| id.parse().unwrap()),
        name: field("event")?,
        data: serde_json::from_str(&field("data")?).unwrap(),
    })
}

/// Reads a stream to its end and says at once what has come.
pub(crate) async fn watch_stream(
    response: reqwest::Response,
    mut on_event: impl FnMut(&SseEvent),
) -> Vec<SseEvent> {
    let (mut reader, mut events) = (SseReader::of(response), Vec::new());
    while let Some(event) = reader.next().await {
        on_event(&event);
        events.push(event);
    }
    events
}
