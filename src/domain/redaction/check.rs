//! What a list of redaction rules must be before it is used.

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};

use super::{PLACEHOLDER_START, RedactionRule, SECRET_RULE};

/// The most rules of one agent, and of the operator.
const MAX_RULES: usize = 64;
const MAX_NAME: usize = 32;
/// A shorter value would turn up by chance.
const VALUE_CHARS: (usize, usize) = (4, 4096);
/// The most characters of all values together, as searching takes time with them.
const ALL_VALUE_CHARS: usize = 16_384;
const PATTERN_CHARS: (usize, usize) = (1, 1024);
const FIELD_CHARS: (usize, usize) = (1, 128);
/// The memory that one compiled pattern may take, in bytes.
const PATTERN_MEMORY: usize = 1 << 20;

/// One thing that is wrong with a list of rules. The message never holds a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFault {
    /// Where, as a JSON pointer into the list.
    pub pointer: String,
    /// A sentence for people.
    pub message: String,
}

/// Everything that is wrong with a list of rules.
pub fn faults(rules: &[RedactionRule]) -> Vec<RuleFault> {
    let mut found = Vec::new();
    if rules.len() > MAX_RULES {
        found.push(fault("", format!("there are at most {MAX_RULES} rules")));
    }
    let values = rules.iter().map(|rule| match rule {
        RedactionRule::Value(rule) => rule.value.chars().count(),
        RedactionRule::Pattern(_) | RedactionRule::Field(_) => 0,
    });
    if values.sum::<usize>() > ALL_VALUE_CHARS {
        let message = format!("the values have at most {ALL_VALUE_CHARS} characters together");
        found.push(fault("", message));
    }
    let mut names = BTreeSet::new();
    for (at, rule) in rules.iter().enumerate() {
        let is_new = names.insert(rule.rule_name());
        let problems = name_problem(rule.rule_name(), is_new)
            .into_iter()
            .chain(channel_problem(rule))
            .chain(content_problem(rule));
        found.extend(problems.map(|(member, message)| fault(&format!("/{at}/{member}"), message)));
    }
    found
}

/// A pattern in the form that is searched for.
///
/// # Errors
/// With a sentence about what is wrong with it.
pub fn pattern_regex(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern)
        .size_limit(PATTERN_MEMORY)
        .dfa_size_limit(PATTERN_MEMORY)
        .build();
    let regex = built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the pattern takes too much memory".to_owned(),
        error => {
            // The last line says what is wrong; those before it draw the pattern.
            let shown = error.to_string();
            let reason = shown.lines().last().unwrap_or_default().trim();
            format!("not a pattern: {}", reason.trim_start_matches("error: "))
        }
    })?;
    if regex.is_match("") {
        return Err("the pattern must not match the empty text".to_owned());
    }
    Ok(regex)
}

type Problem = (&'static str, String);

fn fault(pointer: &str, message: String) -> RuleFault {
    RuleFault { pointer: pointer.to_owned(), message }
}

fn name_problem(name: &str, is_new: bool) -> Option<Problem> {
    let message = if !is_name(name) {
        format!("must match ^[a-z][a-z0-9_]{{0,{}}}$", MAX_NAME - 1)
    } else if name == SECRET_RULE {
        format!("`{SECRET_RULE}` is the name of the rule that is always there")
    } else if is_new {
        return None;
    } else {
        format!("`{name}` is the name of another rule")
    };
    Some(("name", message))
}

fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= MAX_NAME
        && name.bytes().all(is_inner)
        && name.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
}

fn channel_problem(rule: &RedactionRule) -> Option<Problem> {
    let message = || "must name a channel; without `channels` they are all meant".to_owned();
    rule.channels().is_empty().then(|| ("channels", message()))
}

fn content_problem(rule: &RedactionRule) -> Option<Problem> {
    match rule {
        RedactionRule::Value(rule) => {
            let holds_placeholder = || {
                let message = format!("must not hold `{PLACEHOLDER_START}`");
                rule.value.contains(PLACEHOLDER_START).then_some(message)
            };
            let problem = length_problem(&rule.value, VALUE_CHARS).or_else(holds_placeholder);
            problem.map(|message| ("value", message))
        }
        RedactionRule::Pattern(rule) => {
            let unfit = || pattern_regex(&rule.pattern).err();
            let problem = length_problem(&rule.pattern, PATTERN_CHARS).or_else(unfit);
            problem.map(|message| ("pattern", message))
        }
        RedactionRule::Field(rule) => {
            length_problem(&rule.field, FIELD_CHARS).map(|message| ("field", message))
        }
    }
}

fn length_problem(text: &str, (least, most): (usize, usize)) -> Option<String> {
    let fits = (least..=most).contains(&text.chars().count());
    (!fits).then(|| format!("must have {least} to {most} characters"))
}
