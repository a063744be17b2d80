//! Framing tags are spelt in one place. Test code may spell them: what it expects must not come from
//! the code under test.

use agentling_tags::TAGS;

use crate::scan::{self, File, Kind};
use crate::{Finding, bites, hold};

const HOME: &str = "src/render/framing";

mod agentling_tags {
    /// The names between the brackets.
    pub(super) const TAGS: [&str; 8] = [
        "system",
        "tool_result",
        "assistant_thinking",
        "context",
        "context_diff",
        "validation_errors",
        "retry_feedback",
        "conversation_summary",
    ];
}

/// Every string literal of a file that opens or closes a framing tag.
fn check(file: &File) -> Vec<Finding> {
    if !file.path.starts_with("src/") || file.path.starts_with(HOME) {
        return Vec::new();
    }
    file.tokens
        .iter()
        .filter(|token| token.kind == Kind::Literal && !token.in_doc && !token.in_test)
        .filter_map(|token| {
            let tag = TAGS.iter().find(|tag| spells(&token.text, tag))?;
            let what = format!("the framing tag `{tag}` is spelt here");
            let advice = "use `wrap`, `open_tag` or `close_tag` of render::framing";
            Some(Finding::new(&file.path, token.line, what, advice))
        })
        .collect()
}

/// Whether a text opens or closes the tag, in any case and with any spacing. A text that stops right
/// after the name counts: the rest may be written by another literal.
fn spells(text: &str, tag: &str) -> bool {
    let text = text.to_lowercase();
    text.split('<').skip(1).any(|rest| {
        let rest = rest.trim_start();
        let rest = rest.strip_prefix('/').unwrap_or(rest).trim_start();
        let after = rest
            .strip_prefix(tag)
            .and_then(|after| after.is_empty().then_some(' ').or_else(|| after.chars().next()));
        after.is_some_and(|mark| mark.is_whitespace() || "/>{".contains(mark))
    })
}

/// The tags that the library spells, read from its source.
fn tags_of(file: &File) -> Vec<&str> {
    let at = file.tokens.iter().position(|token| token.is("name")).unwrap_or(file.tokens.len());
    let body = file.tokens.iter().skip(at).take_while(|token| !token.is("fn"));
    body.filter(|token| token.kind == Kind::Literal && !token.in_doc)
        .map(|token| token.text.as_str())
        .collect()
}

#[test]
fn framing_tags_are_spelt_in_one_place() {
    hold(scan::rust().flat_map(check));
}

#[test]
fn a_tag_is_found_in_any_case_and_spacing() {
    let text = "//! <system>\nconst A: &str = \"<system>\";\nconst B: &str = \"x < / Tool_Result\\n>\";\nconst C: &[u8] = b\"<context\";\nconst D: &str = \"<contexts> < b system\";\nfn f() { format!(\"<SYSTEM{x}>\"); }\n#[cfg(test)]\nmod tests { const E: &str = \"<system>\"; }\n";
    bites(&check(&File::new("src/wire/x.rs", text)), "framing tag", &[2, 3, 4, 6]);
    assert_eq!(check(&File::new("src/render/framing/mod.rs", text)), []);
}

#[test]
fn the_list_of_tags_is_the_library_s() {
    let homes = ["src/render/framing/mod.rs", "src/render/framing.rs"];
    for file in scan::rust().filter(|file| homes.contains(&file.path.as_str())) {
        assert_eq!(tags_of(file), TAGS);
    }
    let planted = "impl T { pub const fn name(self) -> &'static str { match self { A => \"a\", B => \"b\" } } fn x() { \"c\" } }";
    assert_eq!(tags_of(&File::new("src/x/y.rs", planted)), ["a", "b"]);
}
