//! What a `SKILL.md` may look like, and what it may not.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::domain::step::ToolsStep;
use crate::domain::tool::ToolSpec;

fn spec(text: &str) -> SkillSpec {
    SkillFile::read(text).unwrap().spec(None, None).unwrap()
}

/// The pointer, the code and the words of what is wrong.
fn fault(text: &str) -> (String, String, String) {
    let read = SkillFile::read(text).and_then(|file| file.spec(None, None));
    let finding = read.expect_err(text).findings.remove(0);
    (finding.pointer, finding.code, finding.message)
}

fn code(text: &str) -> String {
    fault(text).1
}

#[test]
fn a_file_is_its_front_matter_and_the_text_after_it() {
    let spec = spec(
        "---\nname: invoices\ndescription: |\n  Books\n  invoices.\n---\n\n# Do\n\n---\nThis.\n\n",
    );
    assert_eq!((spec.name.as_str(), spec.description.as_str()), ("invoices", "Books\ninvoices.\n"));
    assert_eq!(spec.instructions, "# Do\n\n---\nThis.", "a later line of dashes is text");
}

#[test]
fn line_ends_and_a_byte_order_mark_are_no_part_of_the_lines() {
    let spec = spec("\u{feff}---\r\nname: a\r\ndescription: b\r\n---\r\nDo\r\nthis.");
    assert_eq!((spec.name.as_str(), spec.description.as_str()), ("a", "b"));
    assert_eq!(spec.instructions, "Do\r\nthis.");
}

#[test]
fn a_file_that_does_not_begin_with_exactly_three_dashes_is_all_text() {
    for first in
        ["--- ", " ---", "----", "--", "***", "", "\n---", "---\u{a0}", "\u{feff}\u{feff}---"]
    {
        let text = format!("{first}\nname: a\n---\nDo.");
        let file = SkillFile::read(&text).unwrap();
        let spec = file.clone().spec(Some("n".to_owned()), Some("d".to_owned())).unwrap();
        let told = text.strip_prefix('\u{feff}').unwrap_or(&text).trim_start_matches('\n');
        assert_eq!(spec.instructions, told, "{first:?}");
        assert_eq!(file.spec(None, None).unwrap_err().findings[0].pointer, "/name", "{first:?}");
    }
}

#[test]
fn what_the_front_matter_says_counts_before_what_is_said_elsewhere() {
    let file = SkillFile::read("---\nname: a\n---\nDo.").unwrap();
    let spec = file.spec(Some("other".to_owned()), Some("d".to_owned())).unwrap();
    assert_eq!((spec.name.as_str(), spec.description.as_str()), ("a", "d"));
}

#[test]
fn front_matter_that_does_not_end_does_not_load() {
    for text in
        ["---", "---\n", "---\nname: a", "---\nname: a\n--- \nDo.", "---\r\nname: a\r\n ---\r\n"]
    {
        assert_eq!(code(text), "unterminated", "{text:?}");
    }
    let endless = format!("---\n{}", "a: b\n".repeat(10_000));
    assert_eq!(code(&endless), "too_long");
}

#[test]
fn front_matter_that_is_no_mapping_does_not_load() {
    for yaml in ["", "# nothing", "~", "a", "- a", "12", "[]", "true"] {
        let found = code(&format!("---\n{yaml}\n---\nDo."));
        assert!(["not_a_mapping", "invalid_yaml"].contains(&found.as_str()), "{yaml:?}: {found}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_line_or_its_place() {
    let told = |yaml: &str| fault(&format!("---\n{yaml}\n---\nDo."));
    let (_, code, message) = told("name: a\nname: b");
    assert_eq!(code, "invalid_yaml");
    assert!(message.starts_with("line 3 of the file: "), "{message}");
    let (pointer, code, message) = told("name: a\nlicense: MIT");
    assert_eq!((pointer.as_str(), code.as_str()), ("/license", "invalid_value"));
    assert!(message.contains("unknown field `license`"), "{message}");
    assert_eq!(told("name: [a]").0, "/name");
    assert_eq!(told("name: a\ndescription: {a: b}").0, "/description");
    assert_eq!(told("name: a\ndescription: b\ntools: none").0, "/tools");
    assert_eq!(told("tools:\n- kind: shell\n  name: rm").0, "/tools/0/kind");
    assert_eq!(told("tools:\n- {}").0, "/tools/0");
    assert_eq!(told("metadata:\n  a: [b]").0, "/metadata/a");
    assert_eq!(told("description: b").0, "/name");
    assert_eq!(told("name: \"a\\0b\"").1, "text_not_storable");
}

#[test]
fn nothing_in_front_matter_unfolds() {
    for yaml in [
        "name: &a x\ndescription: *a",
        "name: &a x",
        "base: &b {name: a}\n<<: *b",
        "<<: {name: a}",
        "name: a\n--- \nname: b",
        "name: !shell a",
        "? [a]\n: b",
    ] {
        let found = SkillFile::read(&format!("---\n{yaml}\n---\nDo."));
        assert!(found.is_err(), "{yaml:?} is {found:?}");
    }
    let mut bomb = "a0: &a0 [x, x]\n".to_owned();
    for n in 1..40 {
        writeln!(bomb, "a{n}: &a{n} [*a{}, *a{}]", n - 1, n - 1).unwrap();
    }
    assert_eq!(code(&format!("---\n{bomb}---\n")), "invalid_yaml");
    let deep = format!("---\nname: {}\n---\n", "[".repeat(10_000));
    assert_eq!(code(&deep), "invalid_yaml");
}

#[test]
fn tools_are_declared_as_those_of_an_agent() {
    let tools = "tools:\n- kind: client\n  name: look\n  parameters:\n    type: object\n    properties: {n: {type: integer}}\n";
    let spec = spec(&format!("---\nname: a\ndescription: b\n{tools}---\nDo."));
    let [ToolSpec::Client(tool)] = &*spec.tools else { panic!("{:?}", spec.tools) };
    assert_eq!(tool.name, "look");
    assert_eq!(tool.parameters["properties"]["n"]["type"], "integer");
}

#[test]
fn a_megabyte_of_dashes_is_read_in_no_time() {
    let line = "-".repeat(1 << 20);
    assert_eq!(code(&line), "missing_field", "one long line is text");
    let lines = "---\n".repeat(1 << 18);
    assert_eq!(code(&lines), "not_a_mapping", "the second one ends it");
    let almost = format!("---\n{}", "--- \n".repeat(1 << 18));
    assert_eq!(code(&almost), "too_long");
}

#[test]
fn a_name_is_lower_case_with_dashes_and_never_an_id() {
    for name in ["a", "0", "a-b", "pdf-2-text", &"a".repeat(64)] {
        assert!(is_skill_name(name), "{name}");
    }
    let id = "skl_0198f2c4a1b27cde8f00112233445566";
    assert!(id.parse::<SkillId>().is_ok());
    for name in ["", "-a", "A", "a_b", "a b", "ä", "a\n", id, &"a".repeat(65)] {
        assert!(!is_skill_name(name), "{name}");
    }
}

#[test]
fn tools_are_there_from_when_they_came_to_when_they_went() {
    let change = |added: &[&str], removed: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        StepContent::Tools(ToolsStep { added: owned(added), removed: owned(removed) })
    };
    let steps = [change(&["a", "b"], &[]), change(&["c"], &["a"]), change(&["a"], &["c"])];
    assert_eq!(brought(&steps[..1]), BTreeSet::from(["a", "b"]));
    assert_eq!(brought(&steps[..2]), BTreeSet::from(["b", "c"]));
    assert_eq!(brought(&steps), BTreeSet::from(["a", "b"]));
}

/// A line as hostile files have them.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("---".to_owned()),
        2 => "(name|description|tools|metadata|<<|\\?): ?.{0,12}",
        1 => "[ \\-]{0,6}[&*!|>%@`\"'\\[{#]?.{0,12}",
        1 => any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_file_makes_the_reader_panic_or_invent(
        lines in prop::collection::vec(line(), 0..12),
        end in prop::sample::select(vec!["\n", "\r\n"]),
    ) {
        let text = lines.join(end);
        if let Ok(file) = SkillFile::read(&text) {
            let titles = (Some("n".to_owned()), Some("d".to_owned()));
            let spec = file.spec(titles.0, titles.1).unwrap();
            prop_assert!(text.contains(&*spec.instructions), "{spec:?}");
        }
    }
}
