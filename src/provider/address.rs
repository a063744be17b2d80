//! Where requests go, and which addresses are a provider's own.

use reqwest::Url;
use url::{Host, Origin};

use crate::domain::model::{ModelError, ModelErrorKind, ModelSpec, Provider};
use crate::wire::Endpoint;

/// The address of an endpoint below the model's base address, else its provider's; a query of the base
/// address is kept.
pub(super) fn of_endpoint(
    spec: &ModelSpec,
    region: Option<&str>,
    endpoint: &Endpoint,
) -> Result<Url, ModelError> {
    let mut url = of_base(spec, region)?;
    let joined = format!("{}/{}", url.path().trim_end_matches('/'), endpoint.path);
    url.set_path(&joined);
    if !endpoint.query.is_empty() {
        url.query_pairs_mut().extend_pairs(endpoint.query);
    }
    url.set_fragment(None);
    Ok(url)
}

/// A model's base address, else its provider's.
pub(super) fn of_base(spec: &ModelSpec, region: Option<&str>) -> Result<Url, ModelError> {
    let refuse = |what: String| ModelError::new(spec.provider, ModelErrorKind::BadRequest, what);
    let base = match (&spec.base_url, own(spec.provider, region)) {
        (Some(base_url), _) => base_url.clone(),
        (None, Some(own)) => own,
        (None, None) => return Err(refuse(nowhere(spec.provider))),
    };
    let url = Url::parse(&base)
        .map_err(|error| refuse(format!("the model's base_url is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("the model's base_url is neither http nor https".to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("the model's base_url holds credentials".to_owned()));
    }
    Ok(url)
}

/// Where a provider is reached when the model does not say.
fn own(provider: Provider, region: Option<&str>) -> Option<String> {
    let known = provider.transport().base_url.map(str::to_owned);
    known.or_else(|| match provider {
        Provider::Bedrock => {
            region.map(|region| format!("https://bedrock-runtime.{region}.amazonaws.com"))
        }
        _ => None,
    })
}

fn nowhere(provider: Provider) -> String {
    match provider {
        Provider::Bedrock => {
            "there is no region to reach Bedrock in: set AWS_REGION or the model's base_url"
                .to_owned()
        }
        _ => {
            format!("the provider `{provider}` is reached at the model's base_url, which is absent")
        }
    }
}

/// Whether an address is the provider's own, so that its key may be shown there.
///
/// Where every customer has a host of their own, the hosts are all the provider's: what arrives there
/// is not shown to the customer.
pub(super) fn is_own(provider: Provider, url: &Url) -> bool {
    match provider {
        Provider::Azure => is_azure(url),
        Provider::Bedrock => bedrock_region(url).is_some(),
        Provider::Vertex => {
            let name = "aiplatform.googleapis.com";
            secure_host(url)
                .and_then(|host| host.strip_suffix(name))
                .is_some_and(|place| place.is_empty() || is_label(place.strip_suffix('-')))
        }
        _ => {
            let own = provider.transport().base_url.and_then(|own| Url::parse(own).ok());
            let own = own.map(|own| own.origin()).filter(Origin::is_tuple);
            own.is_some_and(|own| own == url.origin())
        }
    }
}

/// Whether an address is one of OpenAI's models at Azure.
pub(super) fn is_azure(url: &Url) -> bool {
    let resource = secure_host(url).and_then(|host| host.strip_suffix(".openai.azure.com"));
    is_label(resource)
}

/// The region of an address of Bedrock. A private endpoint is somebody's own and is none of these.
pub(super) fn bedrock_region(url: &Url) -> Option<&str> {
    let host = secure_host(url)?.strip_suffix(".amazonaws.com")?;
    let plain = host.strip_prefix("bedrock-runtime.");
    let region = plain.or_else(|| host.strip_prefix("bedrock-runtime-fips."))?;
    is_label(Some(region)).then_some(region)
}

/// The name of a host that is reached over TLS at the usual port.
fn secure_host(url: &Url) -> Option<&str> {
    let is_secure = url.scheme() == "https" && url.port().is_none();
    match url.host() {
        Some(Host::Domain(host)) if is_secure => Some(host),
        _ => None,
    }
}

/// Whether it is one label of a host's name.
fn is_label(text: Option<&str>) -> bool {
    text.is_some_and(|text| !text.is_empty() && !text.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::tests::spec;
    use crate::wire::Framing;

    fn address(provider: Provider, base: Option<&str>) -> Result<String, ModelError> {
        let spec = ModelSpec { base_url: base.map(str::to_owned), ..spec(provider) };
        let endpoint = Endpoint {
            path: "chat/a%2Fb".to_owned(),
            query: if provider == Provider::Gemini { &[("alt", "sse")] } else { &[] },
            headers: &[],
            framing: Framing::Events,
        };
        of_endpoint(&spec, Some("eu-west-1"), &endpoint).map(Into::into)
    }

    #[test]
    fn the_endpoint_is_below_the_base_address_and_keeps_its_query() {
        for (base, whole) in [
            ("http://h/v1", "http://h/v1/chat/a%2Fb"),
            ("http://h/v1//", "http://h/v1/chat/a%2Fb"),
            ("http://h:1", "http://h:1/chat/a%2Fb"),
            ("https://h/d?api-version=1#x", "https://h/d/chat/a%2Fb?api-version=1"),
        ] {
            assert_eq!(address(Provider::Openai, Some(base)).unwrap(), whole);
        }
        let gemini = address(Provider::Gemini, Some("http://h/v1?a=b")).unwrap();
        assert_eq!(gemini, "http://h/v1/chat/a%2Fb?a=b&alt=sse");
    }

    #[test]
    fn without_a_base_address_the_provider_is_reached_at_its_own() {
        for (provider, whole) in [
            (Provider::Openai, "https://api.openai.com/v1/chat/a%2Fb"),
            (Provider::Ollama, "http://127.0.0.1:11434/chat/a%2Fb"),
            (Provider::Bedrock, "https://bedrock-runtime.eu-west-1.amazonaws.com/chat/a%2Fb"),
        ] {
            assert_eq!(address(provider, None).unwrap(), whole);
        }
        for provider in [Provider::Azure, Provider::Vertex] {
            let error = address(provider, None).unwrap_err();
            assert!(error.operator_detail.contains("base_url"), "{error:?}");
        }
    }

    #[test]
    fn addresses_that_are_not_plain_http_are_refused() {
        for base in ["", "v1", "ftp://h", "file:///etc", "http://user:pw@h/v1", "https://u@h"] {
            let error = address(Provider::Openai, Some(base)).unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::BadRequest, "{base}");
            assert!(!error.retryable);
        }
    }

    #[test]
    fn an_address_is_the_providers_own_only_where_nobody_else_can_listen() {
        let is_own = |provider, url: &str| is_own(provider, &url.parse().unwrap());
        for (provider, url) in [
            (Provider::Openai, "https://api.openai.com/v1"),
            (Provider::OpenaiResponses, "https://API.openai.com:443/x"),
            (Provider::Ollama, "http://127.0.0.1:11434/x"),
            (Provider::Azure, "https://res.openai.azure.com/openai/v1"),
            (Provider::Bedrock, "https://bedrock-runtime.us-east-1.amazonaws.com"),
            (Provider::Bedrock, "https://bedrock-runtime-fips.us-east-1.amazonaws.com"),
            (Provider::Vertex, "https://aiplatform.googleapis.com/v1"),
            (Provider::Vertex, "https://europe-west1-aiplatform.googleapis.com/v1"),
        ] {
            assert!(is_own(provider, url), "{provider} {url}");
        }
        for (provider, url) in [
            (Provider::Openai, "http://api.openai.com/v1"),
            (Provider::Openai, "https://api.openai.com:444/v1"),
            (Provider::Openai, "https://api.openai.com.example/v1"),
            (Provider::Openai, "https://example.com/api.openai.com"),
            (Provider::Openai, "https://api.anthropic.com/v1"),
            (Provider::Ollama, "http://localhost:11434"),
            (Provider::Azure, "https://openai.azure.com"),
            (Provider::Azure, "http://res.openai.azure.com"),
            (Provider::Azure, "https://res.openai.azure.com:8443"),
            (Provider::Azure, "https://a.b.openai.azure.com"),
            (Provider::Azure, "https://res.openai.azure.com.example"),
            (Provider::Azure, "https://resopenai.azure.com"),
            (Provider::Bedrock, "https://vpce-1.bedrock-runtime.us-east-1.vpce.amazonaws.com"),
            (Provider::Bedrock, "https://bedrock-runtime.a.b.amazonaws.com"),
            (Provider::Bedrock, "https://mine.s3.amazonaws.com"),
            (Provider::Vertex, "https://evilaiplatform.googleapis.com"),
            (Provider::Vertex, "https://a.b-aiplatform.googleapis.com"),
            (Provider::Vertex, "https://storage.googleapis.com"),
            (Provider::Scripted, "https://h"),
        ] {
            assert!(!is_own(provider, url), "{provider} {url}");
        }
    }
}
