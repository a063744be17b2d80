//! Placeholder, replaced when the part lands.
