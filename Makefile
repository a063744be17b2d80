# What a person types. Everything builds without a database: the statements are checked offline.
export SQLX_OFFLINE := true

CARGO ?= cargo

.PHONY: run test postgres fmt lint openapi sqlx docker-smoke clean

run: postgres ## Serve with a demo agent, and run it once.
	$(CARGO) run --locked -- demo

test: postgres ## Run all tests.
	$(CARGO) test --locked

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

sqlx: postgres ## Write what the compiler knows about the statements to .sqlx.
	.ci/throwaway-postgres.sh .ci/sqlx.sh .sqlx

docker-smoke: ## Build the image and run an agent in the composed service.
	.ci/docker-smoke.sh

clean: ## Remove what was built.
	$(CARGO) clean
