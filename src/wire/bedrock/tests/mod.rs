//! Converse: requests and replies.
