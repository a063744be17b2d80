//! The fault cases, one file a part of the service; the names of the tests begin with the case.

mod steer;
