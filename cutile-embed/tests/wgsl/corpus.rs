//! The corpus: WGSL files that are accepted and files that are refused, each named by what it
//! shows. Lines that start with `//!` say what a file is asked for:
//!
//! | line | meaning | how often |
//! |---|---|---|
//! | `features: SHADER_F16, SUBGROUP` | wgpu's features that are declared | once |
//! | `constants: size=16, 7=3` | values of overrides; none behind the colon: none | each is a set |
//! | `refused: size=0` | values that it must not be lowered with | each is a set |
//! | `entry-points: main` | what is kept; none behind the colon: all | each is a set |
//! | `says: text` | what naga says, so that a file is refused for what it shows | refused files, once |
//! | `same-text-as: valid/name` | the other lines are those of that file | refused files, once |

use cutile_embed::shader::Request;
use std::fs;
use std::path::Path;

/// Values of overrides.
pub(crate) type Constants = Vec<(String, f64)>;

/// A file of the corpus.
#[derive(Debug, Clone, Default)]
pub(crate) struct File {
    /// `valid/name.wgsl` or `invalid/name.wgsl`.
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) valid: bool,
    pub(crate) features: Vec<String>,
    pub(crate) constants: Vec<Constants>,
    pub(crate) refused: Vec<Constants>,
    pub(crate) entry_points: Vec<Vec<String>>,
    pub(crate) says: Option<String>,
    pub(crate) same_text_as: Option<String>,
}

/// All files, those that are accepted first, each half by name.
pub(crate) fn files() -> Vec<File> {
    let mut files = Vec::new();
    for folder in ["valid", "invalid"] {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wgsl").join(folder);
        let mut names: Vec<String> = fs::read_dir(&dir)
            .unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        for name in names {
            let text = fs::read_to_string(dir.join(&name)).unwrap();
            files.push(File::read(format!("{folder}/{name}"), text));
        }
    }
    files
}

/// The files that are accepted.
pub(crate) fn valid() -> Vec<File> {
    files().into_iter().filter(|file| file.valid).collect()
}

impl File {
    fn read(path: String, text: String) -> Self {
        let mut file = Self { valid: path.starts_with("valid/"), ..Self::default() };
        for line in text.lines().filter_map(|line| line.strip_prefix("//!")) {
            let (key, value) =
                line.split_once(':').unwrap_or_else(|| panic!("{path}: `{line}` has no colon"));
            match key.trim() {
                "features" => file.features = names(value),
                "constants" => file.constants.push(constants(&path, value)),
                "refused" => file.refused.push(constants(&path, value)),
                "entry-points" => file.entry_points.push(names(value)),
                "says" => file.says = Some(value.trim().to_owned()),
                "same-text-as" => file.same_text_as = Some(value.trim().to_owned()),
                // A misspelt line would otherwise ask for nothing.
                other => panic!("{path}: `{other}` means nothing"),
            }
        }
        assert!(file.valid != file.says.is_some(), "{path}: `says` is for refused files");
        // Without a line, a request that says nothing.
        if file.constants.is_empty() && file.refused.is_empty() {
            file.constants.push(vec![]);
        }
        if file.entry_points.is_empty() {
            file.entry_points.push(vec![]);
        }
        Self { path, text, ..file }
    }

    /// The text without the lines that are for the test.
    pub(crate) fn body(&self) -> Vec<&str> {
        self.text.lines().filter(|line| !line.starts_with("//!")).collect()
    }

    /// Every set of entry points with every set of values.
    pub(crate) fn variants(&self) -> Vec<Variant<'_>> {
        let of = |entry_points| {
            let with = move |constants| Variant { file: self, entry_points, constants };
            self.constants.iter().map(with)
        };
        self.entry_points.iter().flat_map(of).collect()
    }
}

/// A request of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variant<'f> {
    pub(crate) file: &'f File,
    pub(crate) entry_points: &'f Vec<String>,
    pub(crate) constants: &'f Constants,
}

impl<'f> Variant<'f> {
    /// As IR; other kinds are asked for with `kind`.
    pub(crate) fn request(self) -> Request<'f> {
        Request::new(&self.file.path, &self.file.text)
            .features(self.file.features.iter().map(String::as_str))
            .entry_points(self.entry_points.iter().map(String::as_str))
            .constants(self.constants.iter().map(|(name, value)| (name.as_str(), *value)))
    }

    /// For messages.
    pub(crate) fn name(self) -> String {
        let Self { file, entry_points, constants } = self;
        format!("{} {entry_points:?} {constants:?}", file.path)
    }
}

fn names(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(String::from).collect()
}

fn constants(path: &str, list: &str) -> Constants {
    let one = |pair: String| {
        let (name, value) =
            pair.split_once('=').unwrap_or_else(|| panic!("{path}: `{pair}` has no ="));
        (name.trim().to_owned(), value.trim().parse().unwrap_or_else(|_| panic!("{path}: {pair}")))
    };
    names(list).into_iter().map(one).collect()
}
