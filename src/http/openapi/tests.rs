//! The shape of the document.

use serde_json::{Value, json};
use utoipa::{OpenApi, ToSchema};

use super::*;
use crate::domain::agent::AgentSpec;
use crate::domain::step::StepContent;
use crate::http::reply::PageView;

#[derive(serde::Serialize, ToSchema)]
struct ThingView {
    agent: AgentSpec,
    step: StepContent,
    #[schema(nullable)]
    task: Option<crate::domain::step::TaskStep>,
}

/// Make a thing
#[utoipa::path(post, path = "/v1/things/{thing_id}", tag = "agents", operation_id = "things_make",
    params(("thing_id" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    request_body = AgentSpec, responses((status = 201, description = "Made", body = ThingView)),
    extensions(("x-problems" = json!(["thread-busy"]))))]
#[expect(dead_code, reason = "only its description is used")]
fn make() {}

/// List things
#[utoipa::path(get, path = "/v1/things", tag = "agents", operation_id = "things_list",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, description = "A page", body = PageView<ThingView>)))]
#[expect(dead_code, reason = "only its description is used")]
fn list() {}

#[derive(OpenApi)]
#[openapi(paths(make, list))]
struct Things;

fn document() -> Value {
    let mut document = Base::openapi();
    document.merge(Things::openapi());
    finish(&document)
}

#[test]
fn the_published_document_keeps_to_the_shape_rules() {
    assert_eq!(findings(&crate::http::openapi_document()), Vec::<String>::new());
}

#[test]
fn a_document_with_unions_keeps_to_the_shape_rules() {
    assert_eq!(findings(&document()), Vec::<String>::new());
}

#[test]
fn the_entries_of_a_page_are_a_component() {
    let document = document();
    let page = &document["components"]["schemas"]["ThingViewPage"]["properties"];
    assert_eq!(page["items"]["items"], json!({ "$ref": "#/components/schemas/ThingView" }));
    let thing = &document["components"]["schemas"]["ThingView"];
    assert!(thing["properties"]["agent"].is_object());
}

#[test]
fn a_tagged_union_becomes_references_with_a_discriminator() {
    let document = document();
    let tools = &document["components"]["schemas"]["ToolSpec"];
    let mapping = json!({
        "http": "#/components/schemas/HttpTool",
        "client": "#/components/schemas/ClientTool",
        "mcp": "#/components/schemas/McpTool",
        "agent": "#/components/schemas/AgentTool",
        "builtin": "#/components/schemas/BuiltinTool",
    });
    assert_eq!(tools["discriminator"], json!({ "propertyName": "kind", "mapping": mapping }));
    assert_eq!(tools["oneOf"][0]["$ref"], "#/components/schemas/HttpTool");
    let http = &document["components"]["schemas"]["HttpTool"];
    assert_eq!(http["properties"]["kind"], json!({ "type": "string", "enum": ["http"] }));
    assert_eq!(http["required"][0], "kind");
}

#[test]
fn a_variant_that_is_also_used_alone_gets_a_tagged_copy() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    assert!(schemas["TaskStep"]["properties"].get("kind").is_none());
    assert_eq!(
        schemas["StepContentTaskStep"]["properties"]["kind"],
        json!({ "type": "string", "enum": ["task"] })
    );
    let mapping = &schemas["StepContent"]["discriminator"]["mapping"];
    assert_eq!(mapping["task"], "#/components/schemas/StepContentTaskStep");
}

#[test]
fn an_operation_lists_the_problems_it_can_answer_with() {
    let document = document();
    let responses = &document["paths"]["/v1/things/{thing_id}"]["post"]["responses"];
    let statuses: Vec<&String> = responses.as_object().unwrap().keys().collect();
    let expected = [
        "201", "400", "401", "403", "404", "406", "408", "409", "413", "414", "415", "421", "422",
        "429", "431", "500", "503", "4XX", "5XX",
    ];
    assert_eq!(statuses, expected);
    assert!(responses["409"]["description"].as_str().unwrap().contains("`thread-busy`"));
    let body = &responses["4XX"]["content"]["application/problem+json"]["schema"];
    assert_eq!(body["$ref"], "#/components/schemas/Problem");
    let list = &document["paths"]["/v1/things"]["get"];
    assert!(list[PROBLEMS].as_array().unwrap().contains(&json!("invalid-cursor")));
    assert!(list["responses"].get("413").is_none());
}

#[test]
fn the_checks_find_what_they_are_for() {
    let reply = |schema: Value| json!({ "200": { "content": { "application/json": { "schema": schema } } } });
    let broken = json!({
        "components": { "schemas": {
            "A": { "oneOf": [{ "type": "object" }, { "type": "string" }] },
            "C": { "oneOf": [{ "$ref": "#/components/schemas/D" }],
                "discriminator": { "propertyName": "kind", "mapping": { "d": "#/components/schemas/D" } } },
            "D": { "properties": { "kind": { "enum": ["d"] }, "inner": { "properties": {} } } },
            "B": { "$ref": "#/components/schemas/Nowhere" },
        } },
        "paths": {
            "/v1/a": { "get": { "operationId": "a", "summary": "A", "tags": ["t"], "responses": reply(json!({ "properties": {} })) } },
            "/v1/b": { "post": { "requestBody": { "content": { "application/json": {} } }, "responses": { "default": {} } },
                "get": { "operationId": "a", "x-problems": ["nonsense"], "responses": {} } },
            "/v1/c": { "get": { "responses": { "200": { "content": { "a/b": {}, "c/d": {} } } } } },
        },
    });
    let found = findings(&broken).join("\n");
    for expected in [
        "Nowhere leads nowhere",
        "A: a union without a discriminator",
        "C: #/components/schemas/D does not have its tag `kind`",
        "D/properties/inner: an object without a name",
        "get /v1/a 200 application/json: no example",
        "post /v1/b application/json: no example",
        "post /v1/b: problems under `default`",
        "get /v1/a 200 application/json: an object without a name",
        "get /v1/b: operationId a is taken",
        "get /v1/b: no summary",
        "get /v1/b: no tag",
        "get /v1/b: nonsense is no problem",
        "get /v1/c: no operationId",
        "get /v1/c 200: several content types",
    ] {
        assert!(found.contains(expected), "{expected} is not in:\n{found}");
    }
}

#[test]
fn the_older_document_says_the_same_in_the_words_of_3_0() {
    let new = json!({
        "openapi": "3.1.0", "info": { "license": { "name": "x", "identifier": "x" } },
        "a": { "type": ["string", "null"], "examples": ["x", "y"], "const": "x" },
        "b": { "oneOf": [{ "type": "null" }, { "$ref": "#/a" }] },
        "c": { "$ref": "#/a", "description": "d" },
        "d": { "type": ["string", "integer"], "examples": { "named": {} } },
    });
    let old = json!({
        "openapi": "3.0.3", "info": { "license": { "name": "x" } },
        "a": { "type": "string", "nullable": true, "example": "x", "enum": ["x"] },
        "b": { "allOf": [{ "$ref": "#/a" }], "nullable": true },
        "c": { "description": "d", "allOf": [{ "$ref": "#/a" }] },
        "d": { "examples": { "named": {} } },
    });
    assert_eq!(to_3_0(&new), old);
    let whole = to_3_0(&document()).to_string();
    assert!(!whole.contains("\"null\""), "{whole}");
}
