//! Names in the generated module.

/// Rust's keywords, those of all editions and those that are reserved.
const KEYWORDS: [&str; 53] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "Self", "static", "struct", "super", "trait", "true", "try", "type",
    "typeof", "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Those that cannot be written as `r#…`.
const NEVER_RAW: [&str; 4] = ["crate", "self", "Self", "super"];

/// A name as a Rust identifier: what cannot be in one becomes `_`, and what is not ASCII its code,
/// so that no lint of the crate finds fault with it. Keywords are written raw.
pub(crate) fn identifier(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '_' => out.push(c),
            '0'..='9' => {
                if out.is_empty() {
                    out.push('_');
                }
                out.push(c);
            }
            c if c.is_ascii() => out.push('_'),
            c => out.push_str(&format!("_u{:x}_", u32::from(c))),
        }
    }
    // `_` alone is no name.
    while out.len() < 2 && out.chars().all(|c| c == '_') {
        out.push('_');
    }
    if NEVER_RAW.contains(&out.as_str()) {
        out.push('_');
    } else if KEYWORDS.contains(&out.as_str()) {
        out.insert_str(0, "r#");
    }
    out
}

/// A name as that of a Rust constant: `vsMain` and `vs_main` are `VS_MAIN`.
pub(crate) fn constant(name: &str) -> String {
    let name = identifier(name);
    let name = name.strip_prefix("r#").unwrap_or(&name);
    let mut out = String::with_capacity(name.len());
    let chars: Vec<char> = name.chars().collect();
    for (at, c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| chars[at]);
        let starts_word = c.is_ascii_uppercase()
            && before.is_some_and(|before| {
                before.is_ascii_lowercase()
                    || before.is_ascii_digit()
                    || (before.is_ascii_uppercase()
                        && chars.get(at + 1).is_some_and(char::is_ascii_lowercase))
            });
        if starts_word {
            out.push('_');
        }
        out.push(c.to_ascii_uppercase());
    }
    out
}

/// The module of a shader: `shaders/fx/blur.wgsl` is `shaders::fx::blur`.
pub(crate) fn module_path(path: &str) -> Vec<String> {
    path.strip_suffix(".wgsl").unwrap_or(path).split('/').map(identifier).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_becomes_an_identifier() {
        for (name, expected) in [
            ("blur", "blur"),
            ("a-b.c d", "a_b_c_d"),
            ("2d", "_2d"),
            ("type", "r#type"),
            ("gen", "r#gen"),
            ("self", "self_"),
            ("crate", "crate_"),
            ("_", "__"),
            ("-", "__"),
            ("größe", "gr_uf6__udf_e"),
        ] {
            assert_eq!(identifier(name), expected, "{name}");
        }
    }

    #[test]
    fn constants_are_upper_case() {
        for (name, expected) in [
            ("main", "MAIN"),
            ("vs_main", "VS_MAIN"),
            ("vsMain", "VS_MAIN"),
            ("FFTPass2D", "FFT_PASS2_D"),
            ("type", "TYPE"),
        ] {
            assert_eq!(constant(name), expected, "{name}");
        }
    }

    #[test]
    fn a_module_has_the_path_of_its_file() {
        assert_eq!(module_path("shaders/fx/blur.wgsl"), ["shaders", "fx", "blur"]);
        assert_eq!(module_path("2d/match.wgsl"), ["_2d", "r#match"]);
        assert_eq!(module_path("a.wgsl.in"), ["a_wgsl_in"]);
    }
}
