//! No argument can change the structure of a URL.

use proptest::prelude::*;
use serde_json::json;

use super::server::{Server, answer};
use super::{agent, request, tool, toolbox};
use crate::tools::arguments::Arguments;
use crate::tools::template::{TemplateError, UrlTemplate, percent_encode};

fn arguments(value: &str) -> Arguments {
    serde_json::from_str(&json!({"a": value}).to_string()).unwrap()
}

fn filled(template: &str, value: &str) -> url::Url {
    UrlTemplate::parse(template).unwrap().fill(&arguments(value), &[]).unwrap()
}

#[test]
fn a_corpus_of_injections_stays_one_segment_and_one_value() {
    for value in [
        "../admin",
        "..%2fadmin",
        "%2e%2e/",
        "..;/x",
        "a/b",
        "a\\b",
        "a?b=c",
        "a#b",
        "a&b=c",
        "a;b",
        "%00",
        "\0",
        "\r\nHost: evil",
        "//evil.example",
        "https://evil.example/",
        "@evil.example",
        "user:pw@evil",
        "%",
        "%zz",
        "+",
        " ",
        "\t",
        "ä/ö",
        "😀",
        "{a}",
        "}{",
        "a=b",
        "...",
        ".. ",
        ":8080",
        "[::1]",
        "$&+,/:;=?@",
        "\u{202e}",
        "\u{2024}\u{2024}",
        "．．",
        "/..//..",
    ] {
        let url = filled("https://tool.example/v1/{a}/end?x={a}&y=1#gone", value);
        assert_eq!(url.origin().ascii_serialization(), "https://tool.example", "{value}");
        let segments: Vec<_> = url.path_segments().unwrap().collect();
        assert_eq!((segments.len(), segments[0], segments[2]), (3, "v1", "end"), "{value}");
        let pairs: Vec<_> = url.query_pairs().collect();
        assert_eq!(pairs, [("x".into(), value.into()), ("y".into(), "1".into())], "{value}");
        assert_eq!(url.fragment(), None);
    }
}

#[tokio::test]
async fn what_a_model_sends_stays_in_its_segment_and_its_value_on_the_wire() {
    for value in [
        "../../admin",
        "..",
        "..%2fadmin",
        "%2e%2e",
        "a/b",
        "//evil.example",
        "a\\b",
        "a?b=c",
        "a#b",
        "a&b=c",
        "\0",
        "x\r\nHost: evil\r\n\r\nGET /admin",
        "%00",
        "\u{fe0f}\u{ff0e}\u{2024}",
        "@evil",
        "\u{e9}",
    ] {
        let server = Server::start().await;
        let toolbox = toolbox(std::slice::from_ref(&server.host));
        let fields = json!({"method": "GET"});
        let url = server.url("/v1/{a}x/end?q={a}&z=1");
        let tools = json!([tool(&url, &json!({"a": {}, "b": {}}), &fields)]);
        let tools = toolbox.toolset(&agent(&tools, &json!({})));
        let call = request("probe", &json!({"a": value, "b": value}));
        let bytes = answer("200 OK", "", b"");
        let (_, asked) = tokio::join!(toolbox.call(&tools, &call), server.answer(&bytes));
        let encoded = percent_encode(value);
        let line = format!("GET /v1/{encoded}x/end?q={encoded}&z=1&b={encoded} HTTP/1.1");
        assert_eq!(asked.lines().next().unwrap(), line);
        let hosts: Vec<&str> =
            asked.lines().filter(|line| line.to_lowercase().starts_with("host:")).collect();
        assert_eq!(hosts, [format!("host: {}", server.host)], "{value:?}");
        assert_eq!(asked.matches("\r\n\r\n").count(), 1, "{value:?}");
    }
}

#[test]
fn a_segment_that_would_become_dots_or_nothing_is_refused() {
    for (template, value) in [
        ("https://h.example/{a}", ""),
        ("https://h.example/{a}", "."),
        ("https://h.example/{a}/x", ".."),
        ("https://h.example/.{a}", "."),
        ("https://h.example/%2E{a}", "."),
        ("https://h.example/{a}{a}", "."),
    ] {
        let template = UrlTemplate::parse(template).unwrap();
        assert!(template.fill(&arguments(value), &[]).is_err(), "{template:?} {value}");
    }
    assert_eq!(filled("https://h.example/item-{a}", "").path(), "/item-");
}

#[test]
fn a_query_pair_without_its_argument_is_left_out() {
    let template = UrlTemplate::parse("https://h.example/?x={a}&flag&y=").unwrap();
    let url = template.fill(&Arguments::new(), &[]).unwrap();
    assert_eq!(url.as_str(), "https://h.example/?flag&y=");
}

#[test]
fn placeholders_stand_in_path_segments_and_query_values_only() {
    for (text, error) in [
        ("{a}://h.example/", TemplateError::Misplaced),
        ("https://{a}.example/", TemplateError::Misplaced),
        ("https://h.example{a}", TemplateError::Misplaced),
        ("https://h.example:{a}/", TemplateError::Misplaced),
        ("https://{a}@h.example/", TemplateError::Misplaced),
        ("https://h.example/?{a}=1", TemplateError::Misplaced),
        ("https://h.example/?{a}", TemplateError::Misplaced),
        ("https://h.example/#{a}", TemplateError::Misplaced),
        ("https://h.example/{a", TemplateError::Malformed),
        ("https://h.example/a}", TemplateError::Malformed),
        ("https://h.example/{}", TemplateError::Malformed),
        ("https://h.example/{{a}}", TemplateError::Malformed),
        ("https://h.example\\{a}", TemplateError::Ambiguous),
        ("https://h.example/ {a}", TemplateError::Ambiguous),
        ("https://h.example/\n", TemplateError::Ambiguous),
        ("h.example/{a}", TemplateError::NotAUrl),
        ("https:///x", TemplateError::NotAUrl),
        ("https://", TemplateError::NotAUrl),
    ] {
        assert_eq!(UrlTemplate::parse(text), Err(error), "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_one_segment_and_comes_back_whole(value in any::<String>()) {
        prop_assume!(!matches!(value.as_str(), "" | "." | ".."));
        let url = filled("https://tool.example/v1/{a}/end?x={a}&y=1", &value);
        let segments: Vec<_> = url.path_segments().unwrap().collect();
        prop_assert_eq!((segments.len(), segments[0], segments[2]), (3, "v1", "end"));
        let pairs: Vec<_> = url.query_pairs().map(|(_, value)| value.into_owned()).collect();
        prop_assert_eq!(pairs, [value.as_str(), "1"]);
        prop_assert_eq!(url.host_str(), Some("tool.example"));
    }

    #[test]
    fn whatever_template_is_read_no_argument_changes_its_origin(
        tail in r"[/?#]?[a-z{}/?#&=.%@:]{0,20}(\{a\})?[a-z/?#&=.%@:]{0,10}",
        value in any::<String>(),
    ) {
        let Ok(template) = UrlTemplate::parse(&format!("https://h.example{tail}")) else {
            return Ok(());
        };
        if let Ok(url) = template.fill(&arguments(&value), &[]) {
            prop_assert_eq!(url.origin(), template.origin().origin());
        }
    }
}
