//! Framing tags are spelt in one place. Test code may spell them: what it expects must not come from
//! the code under test.

use agentling::domain::tag::{BUILT_IN, TagName};
use agentling::render::framing::FramingTag;

use crate::scan::{self, File};
use crate::tokens::Kind;
use crate::{Finding, bites, hold};

const HOME: &str = "src/render/framing/";

/// Every string literal of a file that opens or closes a framing tag.
fn check(file: &File) -> Vec<Finding> {
    if !file.path.starts_with("src/") || file.path.starts_with(HOME) {
        return Vec::new();
    }
    file.tokens
        .iter()
        .filter(|token| token.kind == Kind::Literal && !token.in_doc && !token.in_test)
        .filter_map(|token| {
            let mut names = FramingTag::ALL.iter().map(|tag| tag.name());
            let tag = names.find(|tag| spells(&token.text, tag))?;
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

/// Every name that no tag may have: names are lower-case words joined by single underscores.
fn ill_named<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Finding> {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    let ill = names.into_iter().filter(|name| !name.split('_').all(is_word));
    ill.map(|name| {
        let what = format!("`{name}` is no name of a framing tag");
        Finding::new(HOME, 1, what, "use lower-case words joined by single underscores")
    })
    .collect()
}

#[test]
fn framing_tags_are_lower_case_words() {
    hold(ill_named(FramingTag::ALL.iter().map(|tag| tag.name())));
    for planted in ["Note", "tool-result", "_system", "context_", "a__b", "note2", "", "no te"] {
        bites(&ill_named([planted]), planted, &[1]);
    }
}

#[test]
fn no_tag_can_be_registered_that_the_renderer_writes() {
    let written: Vec<&str> = FramingTag::ALL.iter().map(|tag| tag.name()).collect();
    assert_eq!(BUILT_IN, written);
    assert!(BUILT_IN.iter().all(|name| name.parse::<TagName>().is_err()));
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
fn every_tag_of_the_library_is_found() {
    for tag in FramingTag::ALL {
        let text = format!("const A: &str = \"</{}>\";", tag.name());
        bites(&check(&File::new("src/http/x.rs", &text)), tag.name(), &[1]);
    }
}
