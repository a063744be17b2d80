//! SPDX licence expressions, as far as crates use them.

/// Licences that code in a server may carry.
pub(crate) const ALLOWED: [&str; 10] = [
    "MIT",
    // MIT without the notice.
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CDLA-Permissive-2.0",
    "ISC",
    "Unicode-3.0",
    "Zlib",
];

/// Whether a licence expression can be met with allowed licences alone.
pub(crate) fn is_allowed(expression: &str) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut at = 0;
    let met = either(&words, &mut at);
    met == Some(true) && at == words.len()
}

fn either(words: &[&str], at: &mut usize) -> Option<bool> {
    let mut met = both(words, at)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= both(words, at)?;
    }
    Some(met)
}

fn both(words: &[&str], at: &mut usize) -> Option<bool> {
    let mut met = one(words, at)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at)?;
    }
    Some(met)
}

fn one(words: &[&str], at: &mut usize) -> Option<bool> {
    let word = *words.get(*at)?;
    *at += 1;
    if word == "(" {
        let met = either(words, at)?;
        *at += 1;
        return (words.get(*at - 1) == Some(&")")).then_some(met);
    }
    let mut name = word.to_owned();
    if words.get(*at) == Some(&"WITH") {
        name = format!("{name} WITH {}", words.get(*at + 1)?);
        *at += 2;
    }
    Some(ALLOWED.contains(&name.as_str()))
}

#[test]
fn expressions_are_read_as_they_bind() {
    for fine in [
        "MIT",
        "MIT/Apache-2.0",
        "Unlicense OR MIT",
        "(Apache-2.0 OR GPL-3.0) AND BSD-3-Clause",
        "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        "GPL-3.0 AND X OR MIT",
    ] {
        assert!(is_allowed(fine), "{fine}");
    }
    for refused in
        ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR X) AND Y", "MIT OR", "(MIT", "MIT MIT"]
    {
        assert!(!is_allowed(refused), "{refused}");
    }
}
