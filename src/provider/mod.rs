//! Sends wire bytes to a model.

#[cfg(test)]
mod tests;
