//! Tests of the codec on made-up exchanges.
