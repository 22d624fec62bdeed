//! The GPUs to compile for.

use crate::error::nearest;
use std::error::Error;
use std::fmt;

/// What tileiras 13.5 accepts as `--gpu-name`, by number.
pub const TARGETS: [&str; 12] = [
    "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_103", "sm_107", "sm_110",
    "sm_120", "sm_121",
];

/// A GPU architecture that tileiras compiles for, as `sm_90`. Ordered by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target(usize);

impl Target {
    /// Reads one name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        TARGETS.iter().position(|target| *target == name).map(Self)
    }

    /// Reads a list of names, for instance of the metadata; `from` says in messages where it
    /// stands. The result is sorted by number.
    ///
    /// # Errors
    ///
    /// [`TargetError`] for an empty list and for a name that is malformed, unknown or there twice.
    pub fn parse_list<S: AsRef<str>>(from: &str, names: &[S]) -> Result<Vec<Self>, TargetError> {
        let error = |found| TargetError { from: from.to_owned(), found };
        let mut targets = Vec::new();
        for name in names {
            let name = name.as_ref();
            let target = Self::parse(name).ok_or_else(|| match number(name) {
                Some(digits) if name.strip_prefix("sm_") == Some(digits) => {
                    error(Found::Unknown(name.to_owned()))
                }
                _ => error(Found::Malformed(name.to_owned())),
            })?;
            if targets.contains(&target) {
                return Err(error(Found::Duplicate(name.to_owned())));
            }
            targets.push(target);
        }
        if targets.is_empty() {
            return Err(error(Found::Nothing));
        }
        targets.sort_unstable();
        Ok(targets)
    }

    /// The name, `sm_90`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        TARGETS[self.0]
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A list of targets that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetError {
    from: String,
    found: Found,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    Nothing,
    Malformed(String),
    Unknown(String),
    Duplicate(String),
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = &self.from;
        match &self.found {
            Found::Nothing => write!(f, "{from} names no target")?,
            Found::Malformed(name) => write!(
                f,
                "{from} names {name:?}, which is not of the form sm_90; did you mean {:?}?",
                suggestion(name)
            )?,
            Found::Unknown(name) => write!(
                f,
                "{from} names {name:?}, which tileiras does not compile for; the nearest is {:?}",
                suggestion(name)
            )?,
            Found::Duplicate(name) => {
                write!(f, "{from} names {name:?} twice; leave one of them out")?;
            }
        }
        let stop = if matches!(self.found, Found::Malformed(_)) { "" } else { "." };
        write!(f, "{stop} Valid targets: {}", TARGETS.join(", "))
    }
}

impl Error for TargetError {}

/// The first run of digits.
fn number(name: &str) -> Option<&str> {
    let start = name.find(|c: char| c.is_ascii_digit())?;
    let rest = &name[start..];
    Some(&rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())])
}

/// What people call a GPU by, whose number is another than its target's.
const PRODUCTS: [(&str, &str); 16] = [
    ("a100", "sm_80"),
    ("a10", "sm_86"),
    ("a40", "sm_86"),
    ("rtx3080", "sm_86"),
    ("rtx3090", "sm_86"),
    ("l4", "sm_89"),
    ("l40", "sm_89"),
    ("l40s", "sm_89"),
    ("rtx4090", "sm_89"),
    ("h100", "sm_90"),
    ("h200", "sm_90"),
    ("gh200", "sm_90"),
    ("b200", "sm_100"),
    ("gb200", "sm_100"),
    ("rtx5080", "sm_120"),
    ("rtx5090", "sm_120"),
];

/// The target of that product, or the nearest by number where there is one, else by letters.
fn suggestion(name: &str) -> &'static str {
    let product: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    if let Some((_, target)) = PRODUCTS.iter().find(|(known, _)| *known == product) {
        return target;
    }
    let by_number = number(name).and_then(|digits| digits.parse::<u32>().ok()).and_then(|found| {
        TARGETS.into_iter().min_by_key(|target| {
            target[3..].parse::<u32>().map_or(u32::MAX, |number| number.abs_diff(found))
        })
    });
    by_number.or_else(|| nearest(name, &TARGETS)).unwrap_or(TARGETS[0])
}

/// The targets of a build: those of `CUTILE_BUILD_TARGETS`, of the builder, or of the metadata.
/// `None` where none are named.
pub(crate) fn chosen_targets(
    env: &crate::environment::BuildEnv,
    metadata: &crate::package::MetadataConfig,
    builder: Option<&[String]>,
) -> Result<Option<Vec<Target>>, TargetError> {
    if let Some(targets) = env.targets()? {
        return Ok(Some(targets));
    }
    let (from, names) = match (builder, metadata.targets()) {
        (Some(names), _) => ("Builder::targets", names),
        (None, Some(names)) => ("[package.metadata.cutile] targets", names),
        (None, None) => return Ok(None),
    };
    Target::parse_list(from, names).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(names: &[&str]) -> String {
        Target::parse_list("targets", names).unwrap_err().to_string()
    }

    #[test]
    fn a_product_is_no_number() {
        for (name, target) in [("H100", "sm_90"), ("rtx 4090", "sm_89"), ("B200", "sm_100")] {
            let said = message(&[name]);
            assert!(said.contains(&format!("did you mean {target:?}? Valid targets")), "{said}");
        }
        assert!(PRODUCTS.iter().all(|(_, target)| TARGETS.contains(target)));
    }

    #[test]
    fn the_list_is_sorted_by_number() {
        let targets = Target::parse_list("targets", &["sm_120", "sm_100", "sm_90"]).unwrap();
        let names: Vec<_> = targets.iter().map(Target::as_str).collect();
        assert_eq!(names, ["sm_90", "sm_100", "sm_120"]);
        let numbers: Vec<u32> = TARGETS.iter().map(|name| name[3..].parse().unwrap()).collect();
        assert!(numbers.is_sorted());
    }

    #[test]
    fn each_error_lists_the_valid_targets() {
        for names in [&[][..], &["sm90"], &["sm_91"], &["sm_90", "sm_90"]] {
            let message = message(names);
            assert!(message.contains("sm_80, sm_86"), "{message}");
            assert!(message.ends_with("sm_120, sm_121"), "{message}");
        }
    }

    #[test]
    fn the_nearest_is_suggested() {
        for (name, near) in [
            ("sm_75", "sm_80"),
            ("sm_91", "sm_90"),
            ("sm_90a", "sm_90"),
            ("sm90", "sm_90"),
            ("SM_120", "sm_120"),
            ("compute_100", "sm_100"),
            ("10.3", "sm_80"),
            ("", "sm_80"),
            ("sm_99999999999999999999", "sm_100"),
        ] {
            let message = message(&[name]);
            assert!(message.contains(&format!("{name:?}")), "{message}");
            if name != "sm_99999999999999999999" {
                assert!(message.contains(&format!("{near:?}")), "{name}: {message}");
            }
        }
    }

    #[test]
    fn a_duplicate_says_so() {
        assert!(message(&["sm_90", "sm_80", "sm_90"]).contains("\"sm_90\" twice"));
    }
}
