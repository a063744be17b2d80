//! Reads server-sent events as a client would.

use std::pin::Pin;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use serde_json::{Value, json};

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
    last_aside: String,
}

impl SseReader {
    /// Reads a response, which must be a stream of events.
    pub(crate) fn of(response: reqwest::Response) -> Self {
        assert_eq!(response.status().as_u16(), 200);
        let content_type = response.headers().get("content-type").cloned();
        assert_eq!(content_type.unwrap(), "text/event-stream");
        let bytes = Box::pin(response.bytes_stream());
        Self { bytes, buffer: Vec::new(), last_aside: String::new() }
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<SseEvent> {
        loop {
            while let Some(block) = self.block() {
                match parse(&block) {
                    Some(event) => return Some(event),
                    None => self.last_aside = block,
                }
            }
            let chunk = self.bytes.next().await?;
            self.buffer.extend_from_slice(&chunk.expect("the stream is not broken off"));
        }
    }

    /// The last block so far that is no event.
    pub(crate) fn last_aside(&self) -> &str {
        &self.last_aside
    }

    /// The next block that is no event, such as a comment; it must come.
    pub(crate) async fn aside(&mut self) -> String {
        loop {
            let aside = std::iter::from_fn(|| self.block()).find(|block| parse(block).is_none());
            if let Some(aside) = aside {
                return aside;
            }
            let chunk = self.bytes.next().await.expect("the stream goes on");
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

/// The whole events among some bytes of a stream.
pub(crate) fn events_in(bytes: &[u8]) -> Vec<SseEvent> {
    let mut events = Vec::new();
    let mut rest = bytes;
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") {
        events.extend(parse(std::str::from_utf8(&rest[..end]).unwrap()));
        rest = &rest[end + 2..];
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

/// The durable events of a stream, as the list shows them.
pub(crate) fn durable(events: &[SseEvent]) -> Vec<Value> {
    events
        .iter()
        .filter_map(|event| Some(json!({"event": event.name, "id": event.id?, "data": event.data})))
        .collect()
}

/// The list, with its members in the same order.
pub(crate) fn listed(events: &[Value]) -> Vec<Value> {
    events
        .iter()
        .map(|event| json!({"event": event["event"], "id": event["id"], "data": event["data"]}))
        .collect()
}

/// The text of an attempt, as far as deltas of a name tell it.
pub(crate) fn text_of(events: &[SseEvent], name: &str, at: (u64, u64)) -> String {
    events
        .iter()
        .filter(|event| event.name == name)
        .filter(|event| {
            (&event.data["turn"], &event.data["attempt"]) == (&json!(at.0), &json!(at.1))
        })
        .filter_map(|event| event.data["text"].as_str())
        .collect()
}
