//! Faults by their numbers in the fault matrix, one file a part of the service.

mod streams;
