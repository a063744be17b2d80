//! Tests of the codec on made-up exchanges; recorded ones are read in `provider`, which may open
//! files.
