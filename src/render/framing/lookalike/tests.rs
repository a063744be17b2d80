//! What counts as alike, character by character. The shared vectors are with those of framing.

use unicode_normalization::UnicodeNormalization;

use super::*;

fn resembles_system(text: &str) -> bool {
    resembled(text) == [FramingTag::System]
}

#[test]
fn the_same_word_in_other_scripts_is_alike() {
    for word in [
        "SYSTEM",
        "\u{405}\u{423}\u{405}\u{422}\u{415}\u{41C}",
        "\u{455}\u{443}\u{455}\u{442}\u{435}\u{43c}",
        "s\u{3a5}s\u{3a4}\u{395}\u{39c}",
        "\u{a731}\u{28f}\u{a731}\u{1d1b}\u{1d07}\u{1d0d}",
        "\u{ff33}\u{ff39}\u{ff33}\u{ff34}\u{ff25}\u{ff2d}",
        "\u{17f}y\u{fb06}em",
        "s\u{200d}y\u{fe0f}s\u{e0041}tem",
        "&#115;&#x79stem",
        "&#x455;ystem",
    ] {
        for text in [format!("<{word}>"), format!("a\u{ff1c}\u{3000}/{word}\u{ff0f}b")] {
            assert!(resembles_system(&text), "{text}");
        }
    }
    let thinking = "<assistant\u{ff3f}th\u{130}n\u{212a}i\u{578}g>".replace('\u{578}', "n");
    assert_eq!(resembled(&thinking), [FramingTag::AssistantThinking]);
}

#[test]
fn a_word_that_only_begins_alike_is_not() {
    for text in ["<\u{455}ystemd>", "<sys tem>", "<s\u{338}ystem>", "\u{226e}system>", "<!system>"]
    {
        assert_eq!(resembled(text), [], "{text}");
    }
}

#[test]
fn a_name_of_data_counts_with_a_namespace_alone() {
    assert_eq!(resembled("<context> <tool_result> </retry_feedback>"), []);
    let text = "<x:tool_result> </ y-1.z:Context> <x:system>";
    let expected = [FramingTag::System, FramingTag::ToolResult, FramingTag::Context];
    assert_eq!(resembled(text), expected);
    for text in ["<:context>", "<x:contexts>", "<x y:context>", "<x:y:context>"] {
        assert_eq!(resembled(text), [], "{text}");
    }
}

#[test]
fn an_entity_is_decoded_once_and_may_lack_its_semicolon() {
    for text in ["&lt;system", "&#60system", "&#x000000000000000000003C;system", "&lt&sol;system"] {
        assert!(resembles_system(text), "{text}");
    }
    for text in [
        "&amp;lt;system",
        "&#38;lt;system",
        "&#;system",
        "&#x;system",
        "&#99999999999999999999;system",
        "&#xD800;system",
        "&l;system",
    ] {
        assert_eq!(resembled(text), [], "{text}");
    }
}

#[test]
fn the_first_look_misses_no_character_that_folds_to_a_bracket() {
    let rest = "system>";
    for c in (0..=0x0010_FFFF).filter_map(char::from_u32) {
        for text in [format!("{c}{rest}"), format!("{c}lt;{rest}")] {
            let folded = fold::folded(&text);
            let is_alike = after_brackets(&folded).any(|(_, name)| tag_like(name).is_some());
            assert_eq!(resembles_system(&text), is_alike, "{text}");
        }
    }
}

#[test]
fn what_nfkc_makes_ascii_of_is_folded_to_the_same() {
    for c in (0x80..=0x0010_FFFF).filter_map(char::from_u32) {
        let normal: String = std::iter::once(c).nfkc().collect();
        if normal.is_ascii() && !c.is_whitespace() {
            let folded = fold::folded(c.encode_utf8(&mut [0; 4])).to_ascii_lowercase();
            assert_eq!(folded, normal.to_ascii_lowercase(), "{c:?}");
        }
    }
}

#[test]
fn each_tag_is_told_once_in_the_order_of_all() {
    let text = "<assistant_thinking><system></system></assistant_thinking>";
    assert_eq!(resembled(text), [FramingTag::System, FramingTag::AssistantThinking]);
}

#[test]
fn a_mebibyte_of_traps_is_looked_at_once() {
    const SIZE: usize = 1 << 20;
    for trap in ["<", "< /", " ", "&", "&#", "&#0", "x:", "\u{ff1c}", "\u{301}\u{316}", "\u{fdfa}"]
    {
        let text = format!("<{}", trap.repeat(SIZE / trap.len()));
        assert_eq!(resembled(&text), []);
        assert!(resembles_system(&(text + "<system")));
    }
}
