# What a person types. Everything builds without a database: the statements are checked offline.
export SQLX_OFFLINE := true

CARGO ?= cargo

.PHONY: run test test-without-notify properties soak bench fuzz postgres fmt lint openapi sdks schemathesis sqlx docker-smoke clean

run: postgres ## Serve with a demo agent, and run it once.
	$(CARGO) run --locked -- demo

test: postgres ## Run all tests.
	$(CARGO) test --locked

test-without-notify: postgres ## Run all tests with servers that find out everything by polling.
	AGENTLING_TEST_NOTIFY=off $(CARGO) test --locked

properties: ## Hold frames to 100,000 texts, rendering to 20,000 histories, and the ledger to 1,000 a wire.
	PROPTEST_CASES=100000 $(CARGO) test --locked --lib render::framing
	PROPTEST_CASES=20000 $(CARGO) test --locked --lib -- render::tests::properties domain::memory wire::tests::histories wire::tests::spans wire::tests::bytes
	AGENTLING_HISTORIES=1000 $(CARGO) test --locked --test it -- engine::captured

soak: postgres ## Kill processes and restart the database under load for two minutes each, and print the figures.
	AGENTLING_SOAK_SECS=120 $(CARGO) test --locked --test it -- --test-threads=1 --nocapture faults::soak

bench: ## Measure framing, rendering and the reading of streams.
	$(CARGO) bench --locked --bench framing --bench render --bench sse

# Wants `cargo install cargo-fuzz`. The switch lets the stable compiler instrument code.
fuzz: export RUSTC_BOOTSTRAP := 1
fuzz: ## Fuzz framing and every reader of providers' bytes for a minute each.
	cp Cargo.lock fuzz/Cargo.lock
	@for target in $$(basename -s .rs fuzz/fuzz_targets/*.rs); do \
		mkdir -p fuzz/corpus/$$target; \
		$(CARGO) fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- -max_total_time=60 \
			|| exit 1; \
	done

postgres: ## Install the PostgreSQL programs if they are missing.
	@.ci/postgres.sh

fmt: ## Format the code.
	$(CARGO) fmt

lint: ## Check format and lints, as CI does.
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings

openapi: ## Write the OpenAPI document.
	@mkdir -p target openapi
	$(CARGO) run --locked --quiet -- openapi > target/openapi.json
	cp target/openapi.json openapi/openapi.json

sdks: postgres ## Make Python and TypeScript SDKs of the OpenAPI document, and a journey through the API with each.
	.ci/sdks/run.sh

schemathesis: postgres ## Hold a server to its OpenAPI document, with 50 random cases an operation and more beside them.
	AGENTLING_SCHEMATHESIS_EXAMPLES=$${AGENTLING_SCHEMATHESIS_EXAMPLES:-50} \
		AGENTLING_SCHEMATHESIS_SECONDS=$${AGENTLING_SCHEMATHESIS_SECONDS:-3600} .ci/schemathesis/run.py

sqlx: postgres ## Write what the compiler knows about the statements to .sqlx.
	.ci/throwaway-postgres.sh .ci/sqlx.sh .sqlx

docker-smoke: ## Build the image and run an agent in the composed service.
	.ci/docker-smoke.sh

clean: ## Remove what was built.
	$(CARGO) clean
