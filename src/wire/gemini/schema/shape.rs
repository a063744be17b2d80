//! A schema together with those that it refers to or consists of.

use serde_json::{Map, Value};

/// The most schemas that say something about one place.
const MAX_LAYERS: usize = 64;

/// Formats that are understood, by kind.
const FORMATS: &[(&str, &[&str])] = &[
    ("string", &["date-time", "enum"]),
    ("number", &["float", "double"]),
    ("integer", &["int32", "int64"]),
];

/// Bounds that are understood, by kind.
const LIMITS: &[(&str, &[&str])] = &[
    ("string", &["pattern", "minLength", "maxLength"]),
    ("number", &["minimum", "maximum"]),
    ("integer", &["minimum", "maximum"]),
    ("array", &["minItems", "maxItems"]),
    ("object", &["minProperties", "maxProperties"]),
];

/// Whether a value is of a kind.
type IsOfKind = fn(&Value) -> bool;

/// What several schemas say about one place, the nearest first.
#[derive(Debug)]
pub(super) struct Shape<'s> {
    layers: Vec<&'s Map<String, Value>>,
    /// The references that led here, by which one that leads back is known.
    open: Vec<&'s str>,
    leads_back: bool,
}

impl<'s> Shape<'s> {
    /// What a schema says with all that it refers to.
    pub(super) fn of(schema: &'s Value, root: &'s Value) -> Self {
        let mut shape = Self { layers: Vec::new(), open: Vec::new(), leads_back: false };
        shape.add(schema, root);
        shape
    }

    /// A schema in this one.
    pub(super) fn within(&self, schema: &'s Value, root: &'s Value) -> Self {
        let mut shape = Self { layers: Vec::new(), open: self.open.clone(), leads_back: false };
        shape.add(schema, root);
        shape
    }

    fn add(&mut self, schema: &'s Value, root: &'s Value) {
        let Some(members) = schema.as_object() else { return };
        if self.layers.len() >= MAX_LAYERS {
            return;
        }
        self.layers.push(members);
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            self.follow(reference, root);
        }
        for part in members.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.add(part, root);
        }
    }

    fn follow(&mut self, reference: &'s str, root: &'s Value) {
        let Some(meant) = reference.strip_prefix('#').and_then(|path| root.pointer(path)) else {
            return;
        };
        if self.open.contains(&reference) {
            self.leads_back = true;
            return;
        }
        self.open.push(reference);
        self.add(meant, root);
    }

    fn get(&self, name: &str) -> Option<&'s Value> {
        self.layers.iter().find_map(|layer| layer.get(name))
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &'s Value> {
        self.layers.iter().filter_map(move |layer| layer.get(name))
    }

    /// The words for what it is; what is not said is told by the members that it has.
    pub(super) fn kinds(&self) -> Vec<&'s str> {
        let told = self.get("type");
        let list = told.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let words = told.and_then(Value::as_str).into_iter();
        let words = words.chain(list.iter().filter_map(Value::as_str));
        let words: Vec<&str> = words.filter(|word| !is_null(word)).collect();
        if !words.is_empty() || told.is_some() || self.variants().next().is_some() {
            return words;
        }
        if self.leads_back || self.get("properties").is_some() {
            vec!["object"]
        } else if self.get("items").or_else(|| self.get("prefixItems")).is_some() {
            vec!["array"]
        } else {
            self.kind_of_choices().into_iter().collect()
        }
    }

    /// Choices of one kind say what it is.
    fn kind_of_choices(&self) -> Option<&'static str> {
        let choices = self.choices();
        let are = |is: IsOfKind| choices.iter().all(|choice| is(choice));
        let named: [(&str, IsOfKind); 4] = [
            ("string", Value::is_string),
            ("integer", |choice| choice.is_i64() || choice.is_u64()),
            ("number", Value::is_number),
            ("boolean", Value::is_boolean),
        ];
        let is_told = !choices.is_empty();
        named.into_iter().find_map(|(kind, is)| (is_told && are(is)).then_some(kind))
    }

    /// Whether it may be nothing.
    pub(super) fn is_nullable(&self) -> bool {
        let list = self.get("type").and_then(Value::as_array);
        let is_listed = list.is_some_and(|list| list.iter().filter_map(Value::as_str).any(is_null));
        let is_choice = self.raw_choices().any(Value::is_null);
        is_listed || is_choice || self.get("nullable") == Some(&Value::Bool(true))
    }

    /// Whether it can only be nothing.
    pub(super) fn is_only_null(&self) -> bool {
        self.get("type").and_then(Value::as_str).is_some_and(is_null)
            || (self.raw_choices().next().is_some() && self.raw_choices().all(Value::is_null))
    }

    /// The schemas of which one holds.
    pub(super) fn variants(&self) -> impl Iterator<Item = &'s Value> {
        let lists = self.get("anyOf").or_else(|| self.get("oneOf"));
        lists.and_then(Value::as_array).into_iter().flatten()
    }

    /// What it is for.
    pub(super) fn description(&self) -> Option<&'s str> {
        self.get("description")?.as_str().filter(|text| !text.is_empty())
    }

    fn raw_choices(&self) -> impl Iterator<Item = &'s Value> {
        let listed = self.get("enum").and_then(Value::as_array).into_iter().flatten();
        self.get("const").into_iter().chain(listed)
    }

    /// The values that it may have, where they are counted out.
    pub(super) fn choices(&self) -> Vec<&'s Value> {
        self.raw_choices().filter(|choice| !choice.is_null()).collect()
    }

    /// What a list is a list of: one schema, or one for each place.
    pub(super) fn items(&self) -> Vec<&'s Value> {
        let is_told = |items: &&Value| items.is_object() || items.is_array();
        let items = self.get("items").filter(is_told).or_else(|| self.get("prefixItems"));
        match items {
            Some(Value::Array(list)) => list.iter().collect(),
            Some(one) => vec![one],
            None => Vec::new(),
        }
    }

    /// The members of an object, of all that is said about it.
    pub(super) fn properties(&self) -> impl Iterator<Item = (&'s String, &'s Value)> {
        self.all("properties").filter_map(Value::as_object).flatten()
    }

    /// The names of the members that have to be there, of all that is said about it.
    pub(super) fn required(&self) -> Vec<&'s str> {
        let mut names = Vec::new();
        for name in self.all("required").filter_map(Value::as_array).flatten() {
            if let Some(name) = name.as_str().filter(|name| !names.contains(name)) {
                names.push(name);
            }
        }
        names
    }

    /// Format and bounds, as far as they are understood of a kind.
    pub(super) fn limits(&self, kind: &str) -> Vec<(&'static str, &'s Value)> {
        let formats = FORMATS.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, all)| all);
        let is_known =
            |format: &&Value| format.as_str().is_some_and(|format| formats.contains(&format));
        let format = self.get("format").filter(is_known).map(|format| ("format", format));
        let limits = LIMITS.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, all)| all);
        let limits = limits.iter().filter_map(|name| Some((*name, self.get(name)?)));
        format.into_iter().chain(limits).collect()
    }
}

fn is_null(kind: &str) -> bool {
    kind.eq_ignore_ascii_case("null")
}
