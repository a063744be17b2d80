//! Reads server-sent events as a client would.

use futures::StreamExt;
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

/// Reads a stream to its end and says at once what has come.
pub(crate) async fn watch_stream(
    response: reqwest::Response,
    mut on_event: impl FnMut(&SseEvent),
) -> Vec<SseEvent> {
    assert_eq!(response.status().as_u16(), 200);
    let mut bytes = response.bytes_stream();
    let (mut text, mut events) = (String::new(), Vec::new());
    while let Some(chunk) = bytes.next().await {
        text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        while let Some((block, rest)) = text.split_once("\n\n") {
            let event = parse(block);
            event.iter().for_each(&mut on_event);
            events.extend(event);
            text = rest.to_owned();
        }
    }
    events
}

/// Reads a stream until it ends, or until so many durable events have come: then it is cut.
pub(crate) async fn read_stream(response: reqwest::Response, durable: usize) -> Vec<SseEvent> {
    assert_eq!(response.status().as_u16(), 200);
    let mut bytes = response.bytes_stream();
    let (mut text, mut events) = (String::new(), Vec::new());
    while let Some(chunk) = bytes.next().await {
        text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        while let Some((block, rest)) = text.split_once("\n\n") {
            events.extend(parse(block));
            text = rest.to_owned();
            if events.iter().filter(|event: &&SseEvent| event.id.is_some()).count() >= durable {
                return events;
            }
        }
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
