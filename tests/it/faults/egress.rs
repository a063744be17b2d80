//! F-59: servers and names that lead a call where it must not go.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use crate::support::{FakeDns, FakeTools, Question, Record, TestApp, Trap};

/// Public, and a sink: whoever connects there is not answered.
const PUBLIC: Record = Record::A(Ipv4Addr::new(192, 31, 196, 1));
const HOME: Record = Record::A(Ipv4Addr::LOCALHOST);

/// What the names of these tests lead to.
fn zone(question: &Question) -> Option<Vec<Record>> {
    let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
    Some(match (question.name.as_str(), question.v6) {
        // Public when it is looked at, and home when it is connected to.
        ("rebind.example", false) if question.nth == 0 => vec![PUBLIC],
        ("rebind.example" | "home.example", false) => vec![HOME],
        ("metadata.example", false) => vec![Record::A(Ipv4Addr::new(169, 254, 169, 254))],
        ("mixed.example", false) => vec![PUBLIC, HOME],
        ("late.example", false) => vec![HOME, PUBLIC],
        ("alias.example", _) => vec![Record::Cname("inside.example"), HOME],
        ("mapped.example", true) => vec![Record::Aaaa(mapped)],
        ("six.example", false) => vec![PUBLIC],
        ("six.example", true) => vec![Record::Aaaa(Ipv6Addr::LOCALHOST)],
        ("silent.example", _) => return None,
        _ => Vec::new(),
    })
}

struct Net {
    app: TestApp,
    dns: FakeDns,
    traps: Vec<Trap>,
    port: u16,
}

/// A server that looks names up in the zone, and may connect to the port of the traps.
async fn net() -> Net {
    let (traps, dns) = (Trap::everywhere().await, FakeDns::start(zone).await);
    let port = traps[0].address.port();
    let app = TestApp::with(&[
        ("AGENTLING_EGRESS_DNS", &dns.server),
        ("AGENTLING_EGRESS_PORTS", &port.to_string()),
        ("AGENTLING_EGRESS_ALLOW_HTTP", "true"),
        ("AGENTLING_EGRESS_ANY_MODEL", "false"),
    ])
    .await;
    Net { app, dns, traps, port }
}

impl Net {
    /// How a call to a host ends: the type of its failure and what is said of it.
    async fn call(&self, scheme: &str, host: &str) -> (String, String) {
        let url = format!("{scheme}://{host}:{}/x", self.port);
        let tool = json!({"kind": "http", "name": "t", "url": url, "effect": "pure",
                          "parameters": {"type": "object"}, "timeout_ms": 60_000});
        let answer = self.app.post("/v1/tools/test", &json!({"tool": tool})).await;
        let problem = answer.expect_problem(422, "tool-call-error");
        let error = &problem["outcome"]["error"];
        let member = |name: &str| error[name].as_str().unwrap().to_owned();
        (member("type"), member("message"))
    }

    async fn assert_untouched(&self) {
        for trap in &self.traps {
            trap.assert_untouched().await;
        }
    }
}

fn denied() -> (String, String) {
    ("EgressDenied".to_owned(), "egress-denied: address".to_owned())
}

#[tokio::test]
async fn f59_a_name_that_leads_home_is_refused_however_it_does() {
    let net = net().await;
    for host in [
        "home.example",
        "metadata.example",
        "mixed.example",
        "late.example",
        "alias.example",
        "mapped.example",
        "six.example",
        "HOME.EXAMPLE.",
    ] {
        for scheme in ["http", "https"] {
            assert_eq!(net.call(scheme, host).await, denied(), "{scheme} {host}");
        }
    }
    assert!(net.dns.asked().iter().any(|question| question.name == "alias.example"));
    net.assert_untouched().await;
}

#[tokio::test]
async fn f59_a_name_that_changes_between_two_look_ups_is_judged_at_each() {
    let net = net().await;
    // The first connection goes to the sink; the next look-up leads home, in this call or the next.
    net.call("http", "rebind.example").await;
    assert_eq!(net.call("http", "rebind.example").await, denied());
    let asked = net.dns.asked();
    let first = asked.iter().find(|question| question.name == "rebind.example").unwrap();
    assert_eq!(first.nth, 0);
    net.assert_untouched().await;
}

#[tokio::test]
async fn f59_a_name_without_an_address_and_one_that_nobody_answers_for_are_not_reached() {
    let net = net().await;
    let unreachable = "the tool's server could not be reached";
    for host in ["nothing.example", "silent.example"] {
        let ended = net.call("https", host).await;
        assert_eq!(ended, ("ConnectError".to_owned(), unreachable.to_owned()), "{host}");
    }
    net.assert_untouched().await;
}

#[tokio::test]
async fn f59_a_redirect_leads_nowhere() {
    let traps = Trap::everywhere().await;
    let app = TestApp::start().await;
    let mut targets: Vec<String> =
        traps.iter().map(|trap| format!("http://{}/", trap.address)).collect();
    targets.push("http://169.254.169.254/latest/meta-data/".to_owned());
    for target in &targets {
        for status in [301, 302, 303, 307, 308] {
            let location = target.clone();
            app.tools.redirect("moved", status, &location);
            let tool = json!({"kind": "http", "name": "moved", "url": app.tools.url("moved"),
                              "parameters": {"type": "object"}});
            let answer = app.post("/v1/tools/test", &json!({"tool": tool})).await;
            let problem = answer.expect_problem(422, "tool-call-error");
            let told = problem["outcome"]["error"]["message"].as_str().unwrap();
            assert_eq!(told, format!("the tool answered with status {status}"));
        }
    }
    for trap in &traps {
        trap.assert_untouched().await;
    }
}

#[tokio::test]
async fn f59_a_model_whose_name_leads_home_fails_its_run_and_says_no_more() {
    let net = net().await;
    let base_url = format!("https://home.example:{}/v1", net.port);
    let model = json!({"provider": "openai", "name": "m", "base_url": base_url});
    let run = net.app.run(&json!({"name": "a", "model": model}), "hi").await;
    assert_eq!(run["status"], "failed", "{run}");
    let error: &Value = &run["error"];
    assert_eq!(
        (&error["type"], &error["kind"]),
        (&json!("/problems/model-error"), &json!("permission"))
    );
    let told = error["detail"].as_str().unwrap();
    assert!(!told.contains("127") && !told.contains("address"), "{told}");
    net.assert_untouched().await;
}

#[tokio::test]
async fn f59_a_webhook_whose_name_leads_home_is_not_told() {
    let net = net().await;
    let url = format!("https://home.example:{}/hook", net.port);
    let hook = net.app.post("/v1/webhooks", &json!({"url": url})).await.expect(201);
    let script = json!([{"text": "Done."}]);
    let model = json!({"provider": "scripted", "name": "m", "script": script});
    net.app.run(&json!({"name": "a", "model": model}), "hi").await;
    let path = format!("/v1/webhooks/{}/deliveries", hook["id"].as_str().unwrap());
    let attempted = async {
        while net.app.get(&path).await.expect(200)["items"][0]["last_error"] != "denied" {
            tokio::task::yield_now().await;
        }
    };
    let minute = std::time::Duration::from_mins(1);
    tokio::time::timeout(minute, attempted).await.expect("it is told why");
    net.assert_untouched().await;
}

/// The positive control: the port is open and the server is reached once the operator vouches for it.
#[tokio::test]
async fn f59_what_the_operator_vouches_for_is_reached() {
    let tools = FakeTools::start().await;
    let app = TestApp::with(&[("AGENTLING_EGRESS_ALLOW", &tools.host)]).await;
    let tool = json!({"kind": "http", "name": "t", "url": tools.url("t"),
                      "parameters": {"type": "object"}});
    app.post("/v1/tools/test", &json!({"tool": tool})).await.expect(200);
    assert_eq!(tools.seen().len(), 1);
}
