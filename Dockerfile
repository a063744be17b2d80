# Builds from the lock file and the checked-in .sqlx: no database, and no build cache to mount.
FROM rust:1.95-bookworm AS build
WORKDIR /src
ENV SQLX_OFFLINE=true

# The dependencies are a layer of their own, which changes of ours do not invalidate.
COPY Cargo.toml Cargo.lock ./
# Not built, but the manifest names them.
COPY benches benches
RUN mkdir src && echo 'fn main() {}' > src/main.rs && touch src/lib.rs \
    && cargo build --release --locked \
    && rm -r src

COPY . .
# cargo compares times, and those of the context are older than the layer above.
RUN touch src/main.rs src/lib.rs && cargo build --release --locked

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/target/release/agentling /usr/local/bin/agentling

ENV AGENTLING_LISTEN=0.0.0.0:8080 AGENTLING_LOG_FORMAT=json
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
    CMD ["/usr/local/bin/agentling", "health"]
ENTRYPOINT ["/usr/local/bin/agentling"]
CMD ["serve"]
