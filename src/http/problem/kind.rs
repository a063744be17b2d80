//! The table of problems: slug, status, title, and what each means.

/// Declares the problems, one row each.
macro_rules! problems {
    ($($name:ident = $status:literal $slug:literal $title:literal $meaning:literal;)+) => {
        /// A kind of problem. The slug is its stable name; clients branch on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ProblemKind {
            $(#[doc = $title] $name,)+
        }

        impl ProblemKind {
            /// Every kind, ordered by status.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The last segment of `type`.
            pub const fn slug(self) -> &'static str {
                match self { $(Self::$name => $slug,)+ }
            }

            /// The HTTP status.
            pub const fn status_code(self) -> u16 {
                match self { $(Self::$name => $status,)+ }
            }

            /// A short name that does not change from case to case.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)+ }
            }

            /// What it means and what to do about it.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)+ }
            }
        }
    };
}

problems! {
    MalformedJson = 400 "malformed-json" "Malformed JSON"
        "The body is not JSON: it is empty, breaks off, has a trailing comma, names a key twice, holds half of a surrogate pair, or goes on after its value. `detail` names line and column. Send one JSON value.";
    JsonTooDeep = 400 "json-too-deep" "JSON nested too deeply"
        "Arrays and objects of the body are nested deeper than `limit` levels. Flatten it, or send the inner value as text.";
    JsonNumberOutOfRange = 400 "json-number-out-of-range" "Number out of range"
        "A number of the body fits neither a 64-bit integer nor a finite double. Send it as text.";
    InvalidUtf8 = 400 "invalid-utf8" "Invalid UTF-8"
        "The body is not UTF-8 text. Encode it as UTF-8 without a byte order mark.";
    InvalidParameter = 400 "invalid-parameter" "Invalid parameter"
        "A query parameter or a request header is unknown, given twice, or has a value that it cannot have. `errors` lists each by name.";
    InvalidCursor = 400 "invalid-cursor" "Invalid cursor"
        "The cursor was not made by this list with these filters. Use `next_cursor` as it is and keep the filters, or start again without a cursor.";
    InvalidLastEventId = 400 "invalid-last-event-id" "Invalid Last-Event-ID"
        "`Last-Event-ID` is not the id of an event: ids are whole numbers from 1. Send the id of the last event you have, or leave the header out.";
    InvalidIdempotencyKey = 400 "invalid-idempotency-key" "Invalid Idempotency-Key"
        "`Idempotency-Key` must be sent once and hold 1–255 visible ASCII characters. A UUID is a good key.";
    Unauthenticated = 401 "unauthenticated" "Not authenticated"
        "The request carries no API key that counts: none, more than one, or one that is malformed, unknown, revoked or expired. Send `Authorization: Bearer ag_…`, or, where the operator has set up OpenID providers, a token of theirs in its place.";
    InsufficientScope = 403 "insufficient-scope" "Insufficient scope"
        "The key is valid but lacks the scope in `required`. Use a key that has it.";
    NotFound = 404 "not-found" "Not found"
        "Nothing is there under this id or path, or it belongs to another tenant. Check the id and the key.";
    MethodNotAllowed = 405 "method-not-allowed" "Method not allowed"
        "The path exists but not with this method. The `Allow` header and `allowed` list the methods that do.";
    NotAcceptable = 406 "not-acceptable" "Not acceptable"
        "The `Accept` header rules out what this operation answers with: `application/json`, or `text/event-stream` for streams.";
    RequestTimeout = 408 "request-timeout" "Request timed out"
        "The body did not arrive in time. Send it again, faster or smaller.";
    RunAlreadyTerminal = 409 "run-already-terminal" "Run already ended"
        "The run has ended (`run_status`), so there is nothing left to do to it. Read its result, or start a new run on its thread.";
    RunNotWaiting = 409 "run-not-waiting" "Run is not waiting"
        "The run does not wait for this: `run_status` says where it stands.";
    RunNotActive = 409 "run-not-active" "Run is not active"
        "The run is neither queued nor running, or it is in its last turn and takes no more messages: `run_status` says where it stands. Start a new run on its thread.";
    ThreadBusy = 409 "thread-busy" "Thread is busy"
        "The thread has an active run, `active_run_id`, and takes one at a time. Wait for it, cancel it, or use another thread.";
    ToolCallAlreadyAnswered = 409 "tool-call-already-answered" "Tool call already answered"
        "The call has its result, decision or resolution, or it has ended. Read the run to see how it goes on.";
    ToolNameConflict = 409 "tool-name-conflict" "Tool name taken"
        "Two tools of an agent have one name, so a model could not tell them apart. Rename one.";
    IdempotencyInProgress = 409 "idempotency-in-progress" "Same request in progress"
        "A request with this `Idempotency-Key` is still being worked on. Ask again with the same key after `Retry-After`.";
    VersionConflict = 409 "version-conflict" "Version conflict"
        "Somebody else changed it meanwhile. Read it again and repeat your change.";
    NothingToCompact = 409 "nothing-to-compact" "Nothing to compact"
        "The thread would not be told in a shorter form: it is empty, or all of it up to `through_seq` that could be replaced or left out was before. Nothing was changed, and no model was asked. There is nothing to do.";
    StreamCursorAhead = 409 "stream-cursor-ahead" "Cursor ahead of the stream"
        "`Last-Event-ID` is larger than the id of the run's last event, `limit`. Send the id of an event you have seen on this run.";
    IdConflict = 409 "id-conflict" "Id or name taken"
        "Something else already has this id or name. Choose another.";
    InUse = 409 "in-use" "In use"
        "Something still needs it as it is. Where other things are made of it or refer to it, `references` lists some of them: delete them first. Where calls of models have more of a budget set aside than would be left, try again when they are over.";
    Gone = 410 "gone" "Gone"
        "It existed and was archived or removed. It does not come back.";
    PreconditionFailed = 412 "precondition-failed" "Precondition failed"
        "`If-Match` does not name the current state. Read it again, and send the `ETag` you got.";
    BodyTooLarge = 413 "body-too-large" "Body too large"
        "The body has more than `limit` bytes. Send less.";
    UriTooLong = 414 "uri-too-long" "URI too long"
        "The request target has more than `limit` bytes. Use shorter filters.";
    UnsupportedMediaType = 415 "unsupported-media-type" "Unsupported media type"
        "Bodies are `application/json` in UTF-8, or `text/markdown` where the operation says so, without `Content-Encoding`. Set `Content-Type: application/json`.";
    MisdirectedRequest = 421 "misdirected-request" "Misdirected request"
        "A server without API keys answers only to `localhost`, `127.0.0.1` and `[::1]`, so that no web page can reach it under another name. Use one of these, or set up a key.";
    ValidationFailed = 422 "validation-failed" "Validation failed"
        "The body is JSON but not what this operation takes. `errors` lists what is wrong, each with a JSON pointer; at most 20 are listed.";
    UnknownField = 422 "unknown-field" "Unknown field"
        "The body has fields that this operation does not know, or that callers cannot set. `errors` points to each. Remove or respell them.";
    TextNotStorable = 422 "text-not-storable" "Text cannot be stored"
        "A text of the body holds the character U+0000, which cannot be stored. `errors` points to it. Remove the character.";
    IdempotencyKeyReused = 422 "idempotency-key-reused" "Idempotency-Key reused"
        "This `Idempotency-Key` was used in the last 24 hours with another body. Use a new key for a new request.";
    MemoryLoadError = 422 "memory-load-error" "Memory does not load"
        "The memory document does not validate; the thread is unchanged. `errors` lists what is wrong, each with a JSON pointer.";
    MemoryVersionUnsupported = 422 "memory-version-unsupported" "Memory version not supported"
        "The memory document has a format version that this server does not know. Export it in a version that `detail` names.";
    SkillLoadError = 422 "skill-load-error" "Skill does not load"
        "The front matter of the `SKILL.md` is not what it has to be: a YAML mapping between two lines that are exactly `---`, with `name` and `description`, and with `tools` and `metadata` where wanted. `errors` says what is wrong and where.";
    InvalidToolSchema = 422 "invalid-tool-schema" "Invalid JSON Schema"
        "A schema is not a valid JSON Schema, or uses what is not supported here. `errors` points to it.";
    SchemaTooComplex = 422 "schema-too-complex" "JSON Schema too complex"
        "A schema is larger, deeper or more branched than the server checks in bounded time. `errors` points to it. Simplify it.";
    RemoteRefForbidden = 422 "remote-ref-forbidden" "Remote reference forbidden"
        "A schema refers to another document. Only `#/…` references are allowed: copy the definition into the schema.";
    EgressDenied = 422 "egress-denied" "URL not allowed"
        "The server does not call this URL: private, loopback and special addresses, other schemes, credentials in the URL and unusual ports are refused. The operator can open exact addresses with `AGENTLING_EGRESS_ALLOW`.";
    UnknownToolCall = 422 "unknown-tool-call" "Unknown tool call"
        "The run has no call with this id. The calls that wait are listed in `requires_action` of the run.";
    UnknownAgent = 422 "unknown-agent" "Unknown agent"
        "The request names an agent that does not exist, or one of another tenant. Check `agent_id`.";
    ToolCallError = 422 "tool-call-error" "Tool call failed"
        "The tool that was tried out failed. `outcome` says how: its kind, and the type and message of the error, as a run would tell them to a model. In a run such a failure is an observation, and no problem.";
    InvalidHeaderName = 422 "invalid-header-name" "Header cannot be set"
        "A tool's header is not a valid header, or is one that the server sets itself. `errors` points to it.";
    RateLimited = 429 "rate-limited" "Too many requests"
        "More was sent than can be taken in: requests come faster than the operator lets a key or a tenant send them, or as many messages wait for the next turn of a run as may. `limit` says how many there may be at once; where rates are bounded, `RateLimit-Policy` and `RateLimit` say which and what is left. Try again after `Retry-After`.";
    TenantQueueFull = 429 "tenant-queue-full" "Too many queued runs"
        "As many runs are waiting as a tenant may have, `limit`. Try again after `Retry-After`.";
    TooManyStreams = 429 "too-many-streams" "Too many streams"
        "As many event streams are open as a tenant, or the server, may have, `limit`. Close one, or try again after `Retry-After`.";
    BudgetExhausted = 429 "budget-exhausted" "Budget used up"
        "A budget that the run would share, of its thread, agent, key or tenant, has nothing left. Raise it, or wait until its period ends. A run that is under way when a budget is used up waits instead.";
    HeadersTooLarge = 431 "headers-too-large" "Headers too large"
        "The request has more headers, or larger ones, than `limit` allows. Send fewer.";
    Internal = 500 "internal" "Internal error"
        "A fault of the server. The operator finds the cause in the log under `error_id`.";
    RunPoisoned = 500 "run-poisoned" "Run given up"
        "The run was picked up several times and never got on, so it was given up. Its history is readable. The operator finds the cause in the log under `error_id`.";
    FramingViolation = 500 "framing-violation" "Frame broken"
        "A request to the model was not sent, because a check found text of someone else that breaks out of a frame in it. That is a fault of the server; the request and where its bytes come from are in the ledger. The operator finds the cause in the log under `error_id`.";
    NotImplemented = 501 "not-implemented" "Not implemented here"
        "What is asked for takes something that this server does not have; `errors` says what. Vectors are compared where the database has the extension `vector`: its operator installs it with `CREATE EXTENSION vector`.";
    SecretsNotConfigured = 501 "secrets-not-configured" "Secrets not set up"
        "The server keeps no secrets, because its operator has set no key to seal them with. The operator sets `AGENTLING_SECRET_KEYS` or `AGENTLING_SECRET_KEYS_FILE`.";
    ModelError = 502 "model-error" "Model failed"
        "The model provider failed or refused for good. `provider`, `provider_status` and `kind` say how. The run's history is intact and can be continued by a new run.";
    McpUnavailable = 502 "mcp-unavailable" "MCP server not available"
        "The MCP server cannot be reached, refuses the connection, or does not answer as such a server does; `detail` says which. Check its URL and headers, and try again.";
    SecretUnavailable = 502 "secret-unavailable" "Secret not available"
        "The model was not asked, because the secret that is its key does not exist, is not bound to the model's origin, or cannot be opened with the keys that the server has. Store the secret again, or give the model another one, and start a new run. The operator finds the cause in the log under `error_id`.";
    Overloaded = 503 "overloaded" "Overloaded"
        "The server has more work than it can take. Try again after `Retry-After`.";
    Draining = 503 "draining" "Shutting down"
        "This server is shutting down and takes no new work. Try again; another one will answer.";
    DatabaseBusy = 503 "database-busy" "Database busy"
        "No database connection became free in time. Try again after `Retry-After`.";
    DatabaseUnavailable = 503 "database-unavailable" "Database unavailable"
        "The database cannot be reached for now. Try again after `Retry-After`; nothing was changed.";
    StorageUnavailable = 503 "storage-unavailable" "Storage unavailable"
        "The database cannot store more for now. Try again after `Retry-After`; nothing was changed.";
    OutcomeUnknown = 503 "outcome-unknown" "Outcome unknown"
        "The connection to the database broke during a write, which may or may not have happened. Repeat the request with the same `Idempotency-Key`, or look first.";
    ModelTimeout = 504 "model-timeout" "Model timed out"
        "The model did not answer within `model_timeout_ms`, however often it was tried. The run's history is intact and can be continued by a new run.";
    RunTimeout = 504 "run-timeout" "Run timed out"
        "The run took longer than its `run_timeout_ms`. Its history is intact and can be continued by a new run.";
}

impl ProblemKind {
    /// The `type` member: a path on this server where the kind is explained.
    pub fn type_uri(self) -> String {
        format!("/problems/{}", self.slug())
    }

    /// How long to wait before another try when nothing more exact is known, in milliseconds.
    ///
    /// Kinds that have an answer here always carry `Retry-After`.
    pub const fn default_retry_after_ms(self) -> Option<u64> {
        match self.status_code() {
            429 | 503 => Some(1_000),
            _ if matches!(self, Self::IdempotencyInProgress) => Some(1_000),
            _ => None,
        }
    }

    /// The kind with this slug.
    pub fn by_slug(slug: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.slug() == slug)
    }
}
