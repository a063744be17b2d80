//! Placeholder, replaced when the layer lands.
