//! OpenAI Chat Completions, as OpenAI and the many servers that imitate it speak it.

mod calls;
mod errors;
mod reply;
mod request;
mod stream;
mod usage;

pub use errors::classify;
pub use reply::decode;
pub use request::encode;
pub use stream::StreamDecoder;

#[cfg(test)]
mod tests;
