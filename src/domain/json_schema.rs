//! JSON Schema: which of its keywords hold schemas under names, and which hold data.

/// Keywords whose members are named by the author.
pub const NAMED: &[&str] = &[
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
    "dependentRequired",
];

/// Keywords that hold data and no schemas.
pub const DATA: &[&str] = &["const", "enum", "default", "examples"];
