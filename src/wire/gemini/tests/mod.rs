//! Tests of the codec on made-up exchanges and on the requests of recorded ones.
