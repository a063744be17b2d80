//! The faults that the service must survive, each under its number in the list of faults.

mod fleet;
