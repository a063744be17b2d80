//! The tool that the demo agent calls: real HTTP on loopback, with made-up weather. Served only by
//! `agentling demo`.

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde::{Deserialize, Serialize};

use super::extract::{PathId, Query};
use super::layers;
use super::problem::Problem;
use super::reply::Reply;
use crate::clock::SharedIds;

/// What the tool is told beside the city.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WeatherQuery {
    #[serde(default)]
    unit: Unit,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Unit {
    #[default]
    Celsius,
    Fahrenheit,
}

#[derive(Debug, Serialize)]
struct Weather {
    city: String,
    temperature: i32,
    unit: Unit,
    sky: &'static str,
}

/// Cities with their temperature in degrees Celsius and their sky.
const CITIES: &[(&str, i32, &str)] =
    &[("Lisbon", 21, "clear"), ("Oslo", 4, "snow"), ("Nairobi", 24, "light rain")];

/// The tool's server.
pub fn demo_tool(ids: SharedIds) -> Router {
    let router = Router::new().route("/weather/{city}", get(weather)).with_state(());
    layers::wrap(router, ids)
}

async fn weather(
    State(()): State<()>,
    PathId(city): PathId<String>,
    Query(query): Query<WeatherQuery>,
) -> Result<Reply<Weather>, Problem> {
    let known = CITIES.iter().find(|(name, ..)| name.eq_ignore_ascii_case(&city));
    let (name, celsius, sky) = known.ok_or_else(Problem::not_found)?;
    let temperature = match query.unit {
        Unit::Celsius => *celsius,
        Unit::Fahrenheit => celsius * 9 / 5 + 32,
    };
    Ok(Reply::ok(Weather { city: (*name).to_owned(), temperature, unit: query.unit, sky }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use serde_json::{Value, json};
    use tower::ServiceExt as _;

    use super::*;
    use crate::clock::System;

    async fn ask(path: &str) -> (u16, Value) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = demo_tool(Arc::new(System::new())).oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = to_bytes(body, 1_000).await.unwrap();
        (parts.status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
    }

    #[tokio::test]
    async fn the_weather_is_told_in_the_unit_that_is_asked_for() {
        for (path, temperature, unit) in [
            ("/weather/lisbon", 21, "celsius"),
            ("/weather/Lisbon?unit=celsius", 21, "celsius"),
            ("/weather/Oslo?unit=fahrenheit", 39, "fahrenheit"),
        ] {
            let (status, weather) = ask(path).await;
            assert_eq!((status, &weather["temperature"]), (200, &json!(temperature)), "{path}");
            assert_eq!(weather["unit"], unit, "{path}");
        }
    }

    #[tokio::test]
    async fn what_it_does_not_know_is_refused() {
        assert_eq!(ask("/weather/Atlantis").await.0, 404);
        assert_eq!(ask("/weather/Oslo?unit=kelvin").await.0, 400);
        assert_eq!(ask("/weather/Oslo?units=celsius").await.0, 400);
    }
}
