//! Looks at requests as the API tells them.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::TestApp;

/// What is known of the requests of a run, in order.
pub(crate) async fn requests_of(app: &TestApp, run: &Value) -> Vec<Value> {
    app.all(&format!("/v1/runs/{}/requests", run["id"].as_str().unwrap())).await
}

/// The path of a request.
pub(crate) fn path_of(request: &Value) -> String {
    format!("/v1/requests/{}", request["id"].as_str().unwrap())
}

/// A hash in hexadecimal digits.
fn hash_of(bytes: &[u8]) -> String {
    let digits: Vec<String> =
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

/// A request is on record just as it was received, with spans that tile it. Answers each span with its
/// text.
pub(crate) async fn assert_recorded(
    app: &TestApp,
    request: &Value,
    received: &str,
) -> Vec<(Value, String)> {
    let sha256 = hash_of(received.as_bytes());
    assert_eq!(
        (&request["sha256"], &request["bytes"]),
        (&sha256.as_str().into(), &received.len().into())
    );
    let path = path_of(request);
    let body = app.get(&format!("{path}/body")).await;
    assert_eq!((body.status, body.text.as_str()), (200, received));
    assert_eq!(body.header("content-type"), "application/json");
    assert_eq!(body.header("etag"), format!("\"{sha256}\""));
    let map = app.get(&format!("{path}/spans")).await.expect(200);
    assert_eq!((&map["sha256"], &map["bytes"]), (&request["sha256"], &request["bytes"]));
    let mut at = 0;
    let mut texts = Vec::new();
    for span in map["spans"].as_array().unwrap() {
        let offset = |name: &str| usize::try_from(span[name].as_u64().unwrap()).unwrap();
        let (start, end) = (offset("start"), offset("end"));
        assert!(start == at && end > start, "{span} begins at {start}, not at {at}");
        at = end;
        texts.push((span.clone(), received.get(start..end).unwrap().to_owned()));
    }
    assert_eq!(at, received.len());
    texts
}

/// The text of all spans with an origin, put together.
pub(crate) fn text_from(spans: &[(Value, String)], is_meant: impl Fn(&Value) -> bool) -> String {
    spans.iter().filter(|(span, _)| is_meant(span)).map(|(_, text)| text.as_str()).collect()
}
