//! Signatures against AWS's published vectors, and one of this service's own shape derived apart.

use super::*;

/// The identity, secret, region, service and time of AWS's published vectors.
const ID: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const VECTOR_TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";

fn credentials(token: Option<&str>) -> AwsCredentials {
    AwsCredentials {
        access_key_id: ID.to_owned(),
        secret_access_key: SecretString::from(SECRET),
        session_token: token.map(SecretString::from),
    }
}

fn at(time: &str) -> DateTime<Utc> {
    time.parse().unwrap()
}

struct Case<'a> {
    method: &'a str,
    url: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: &'a [u8],
    token: Option<&'a str>,
}

/// What the vector suite signs a request as: the names covered and the signature.
fn vector(case: &Case<'_>) -> (String, String) {
    let url = Url::parse(case.url).unwrap();
    let request =
        Signable { method: case.method, url: &url, headers: case.headers, body: case.body };
    let now = at("2015-08-30T12:36:00Z");
    let added = sign(&request, &credentials(case.token), "us-east-1", "service", now);
    assert_eq!(added[0], ("x-amz-date", "20150830T123600Z".to_owned()));
    let (name, authorization) = added.last().unwrap();
    assert_eq!(*name, "authorization");
    let start = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders=";
    let rest = authorization.strip_prefix(start).unwrap();
    let (names, signature) = rest.split_once(", Signature=").unwrap();
    (names.to_owned(), signature.to_owned())
}

fn bare<'a>(method: &'a str, url: &'a str) -> Case<'a> {
    Case { method, url, headers: &[], body: b"", token: None }
}

#[test]
fn published_vectors_are_signed_as_published() {
    let get = "http://example.amazonaws.com/";
    let cases = [
        (bare("GET", get), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (bare("POST", get), "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            bare("POST", "https://example.amazonaws.com/?Param1=value1"),
            "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
        ),
        (
            bare("GET", "https://example.amazonaws.com/?Param2=value2&Param1=value1"),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            bare("GET", "https://example.amazonaws.com//./x/../"),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
    ];
    for (case, signature) in cases {
        let (names, got) = vector(&case);
        assert_eq!((names.as_str(), got.as_str()), ("host;x-amz-date", signature), "{}", case.url);
    }
}

#[test]
fn a_published_vector_with_a_body_and_one_with_trimmed_headers_are_signed_as_published() {
    let form = Case {
        headers: &[("Content-Type", "application/x-www-form-urlencoded")],
        body: b"Param1=value1",
        ..bare("POST", "https://example.amazonaws.com/")
    };
    let signature = "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a".to_owned();
    assert_eq!(vector(&form), ("content-type;host;x-amz-date".to_owned(), signature));
    let trimmed = Case {
        headers: &[("My-Header1", " value1"), ("My-Header2", " \"a   b   c\"")],
        ..bare("GET", "https://example.amazonaws.com/")
    };
    let signature = "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736".to_owned();
    assert_eq!(vector(&trimmed), ("host;my-header1;my-header2;x-amz-date".to_owned(), signature));
}

#[test]
fn a_session_token_is_sent_and_signed() {
    let case = Case { token: Some(VECTOR_TOKEN), ..bare("POST", "https://example.amazonaws.com/") };
    let signature = "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead".to_owned();
    assert_eq!(vector(&case), ("host;x-amz-date;x-amz-security-token".to_owned(), signature));
}

/// The signature here was computed apart, by a few lines of Python over a canonical request that was
/// written out by hand.
#[test]
fn a_path_that_is_percent_encoded_is_encoded_once_more() {
    let url = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/\
               anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream";
    let request = Signable {
        method: "POST",
        url: &Url::parse(url).unwrap(),
        headers: &[("content-type", "application/json")],
        body: br#"{"messages":[]}"#,
    };
    let now = at("2026-11-30T16:00:00.25Z");
    let added = sign(&request, &credentials(Some("token")), "eu-west-1", "bedrock", now);
    let authorization = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261130/eu-west-1/bedrock/\
                         aws4_request, SignedHeaders=content-type;host;x-amz-date;\
                         x-amz-security-token, Signature=\
                         a87d3bb1ced754415ca0bf93548e96c1139a6014bbef5d2db862d5e07176029a";
    let wanted = [
        ("x-amz-date", "20261130T160000Z"),
        ("x-amz-security-token", "token"),
        ("authorization", authorization),
    ];
    assert_eq!(added, wanted.map(|(name, value)| (name, value.to_owned())));
}

#[test]
fn ports_queries_and_repeated_headers_have_one_canonical_form() {
    let url = Url::parse("http://127.0.0.1:8000/a~b/?b=%7e&a=1&a=&c&%zz=+").unwrap();
    let headers = [("X-A", "1"), ("x-a", " 2  3 ")];
    let request = Signable { method: "POST", url: &url, headers: &headers, body: b"" };
    let (whole, signed) = canonical::request(&request, &[]);
    let start =
        "POST\n/a~b/\n%25zz=%2B&a=&a=1&b=~&c=\nhost:127.0.0.1:8000\nx-a:1,2 3\n\nhost;x-a\n";
    assert!(whole.starts_with(start), "{whole}");
    assert_eq!(signed, "host;x-a");
}

/// The code of RFC 4231, test case 6: a key of 131 bytes.
#[test]
fn a_key_longer_than_a_block_is_hashed_first() {
    let code = mac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
    assert_eq!(hex(&code), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

#[test]
fn credentials_do_not_show_their_secrets() {
    let shown = format!("{:?}", credentials(Some("sesame")));
    assert!(shown.contains(ID) && !shown.contains(SECRET) && !shown.contains("sesame"));
}
