//! Any text as a `SKILL.md`: it loads or it does not, and its instructions are a piece of it.
#![no_main]

use agentling::domain::skill::SkillFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(file) = SkillFile::read(text) {
        let (name, description) = ("n".to_owned(), "d".to_owned());
        let spec = file.spec(Some(name), Some(description)).expect("it is called something");
        assert!(text.contains(&*spec.instructions));
    }
});
