//! Credentials that are made up for one question and belong to nobody.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::clock::Ids;

/// A made-up credential in a text.
#[derive(Clone, PartialEq, Eq)]
pub struct Canary {
    /// What it is, for the report.
    pub name: &'static str,
    /// How it stands in a text.
    pub text: String,
    /// What nobody may find who is not to read it: a part of the text that says it all.
    pub needle: String,
    /// Whether it is found by what it looks like; else it is a value that the server knows.
    pub is_shape: bool,
}

impl std::fmt::Debug for Canary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Canary").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The canaries of one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canaries {
    /// The value that the server is to know.
    pub(super) value: Hidden,
    /// All of them: that value in every form in which values travel, and one of each shape.
    pub list: Vec<Canary>,
}

/// A value that no debug output shows.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Hidden(pub(super) String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hidden")
    }
}

impl Canaries {
    /// New ones.
    ///
    /// # Errors
    /// When the operating system has no random bytes to give.
    pub fn draw(ids: &dyn Ids) -> io::Result<Self> {
        let value = Hidden(format!("canary/\"{}", hex(&ids.secret()?)));
        let list = [known(&value.0), shapes(ids)?].concat();
        Ok(Self { value, list })
    }
}

/// A known value in the forms in which it travels.
fn known(value: &str) -> Vec<Canary> {
    let core: String = value.chars().filter(char::is_ascii_hexdigit).collect();
    let core = core.get(4..).unwrap_or_default();
    let quoted = serde_json::Value::from(value).to_string();
    let url: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
    let encoded = STANDARD.encode(value);
    let inner = encoded.get(8..40).unwrap_or_default().to_owned();
    let canary =
        |name, text: &str, needle: &str| Canary::new(name, (text.to_owned(), needle), false);
    vec![
        canary("value", value, core),
        canary("value_in_json", quoted.trim_matches('"'), core),
        canary("value_in_url", &url, core),
        canary("value_in_base64", &encoded, &inner),
    ]
}

/// What looks like a credential.
fn shapes(ids: &dyn Ids) -> io::Result<Vec<Canary>> {
    let draw = || ids.secret().map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
    let canary = |name, text: String, needle: &str| Canary::new(name, (text, needle), true);
    let id = ids.sortable().simple();
    let upper: String = hex(&ids.secret()?).to_ascii_uppercase().chars().take(16).collect();
    let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let secrets: Vec<String> = (0..6).map(|_| draw()).collect::<io::Result<_>>()?;
    let texts = |secret: &str, n: usize| match n {
        0 => ("agentling_key", format!("ag_{id}_{secret}")),
        1 => ("provider_key", format!("sk-{secret}")),
        2 => ("bearer_token", format!("Bearer {secret}")),
        3 => ("json_web_token", format!("{head}.{secret}.{secret}")),
        4 => ("url_password", format!("postgres://agentling:{secret}@db.example/agentling")),
        _ => {
            let [begin, end] = ["BEGIN", "END"].map(|edge| format!("-----{edge} PRIVATE KEY-----"));
            ("private_key", format!("{begin}\n{}\n{end}", secret.replace(['-', '_'], "x")))
        }
    };
    let shaped = secrets.iter().enumerate().map(|(n, secret)| {
        let (name, text) = texts(secret, n);
        // The body of a private key has another alphabet.
        let needle = if n == 5 { secret.replace(['-', '_'], "x") } else { secret.clone() };
        canary(name, text, &needle)
    });
    let aws = canary("aws_key", format!("AKIA{upper}"), &upper);
    Ok(shaped.chain([aws]).collect())
}

impl Canary {
    fn new(name: &'static str, (text, needle): (String, &str), is_shape: bool) -> Self {
        Self { name, text, needle: needle.to_owned(), is_shape }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}
