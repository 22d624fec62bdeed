//! From globs and options to the files of a crate.

use super::error::ShaderConfigError as Problem;
use super::options::ShaderOptions;
use crate::error::nearest;
use globset::{GlobBuilder, GlobMatcher};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Component, Path, PathBuf};
use walkdir::WalkDir;

/// A shader that is to be lowered.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// With the path below the crate, `/` on every system.
    pub(crate) options: ShaderOptions,
    /// The WGSL text.
    pub(crate) text: String,
}

/// Finds and reads all shaders, by path; what is wrong is added to `problems` and does not stop it.
///
/// `watch` is given what cargo has to watch, below the crate: every file, and for each glob the
/// folder it starts in. Cargo looks into a folder with all that is below it, so a new file that a
/// glob matches is noticed.
pub(crate) fn find(
    root: &Path,
    globs: &[String],
    options: &[ShaderOptions],
    problems: &mut Vec<Problem>,
    watch: &mut dyn FnMut(&str),
) -> Vec<Source> {
    let crate_root = CrateRoot { path: root, real: root.canonicalize().ok() };
    let mut found: BTreeMap<String, Option<ShaderOptions>> = BTreeMap::new();
    for glob in globs {
        match Pattern::new(glob).and_then(|pattern| crate_root.walk(&pattern, watch, problems)) {
            Ok(paths) => found.extend(paths.into_iter().map(|path| (path, None))),
            Err(problem) => problems.push(problem),
        }
    }
    let known: Vec<String> = found.keys().cloned().collect();
    for options in options {
        match crate_root.named(&options.path, &known) {
            Ok(path) => {
                watch(&path);
                let options = ShaderOptions { path: path.clone(), ..options.clone() };
                match found.entry(path) {
                    Entry::Occupied(place) if place.get().is_some() => {
                        problems.push(Problem::Twice { path: options.path });
                    }
                    Entry::Occupied(mut place) => {
                        place.insert(Some(options));
                    }
                    Entry::Vacant(place) => {
                        place.insert(Some(options));
                    }
                }
            }
            Err(problem) => problems.push(problem),
        }
    }
    let mut sources = Vec::new();
    for (path, options) in found {
        watch(&path);
        match read(root, &path) {
            Ok(text) => {
                let options = options.unwrap_or_else(|| ShaderOptions::new(path));
                sources.push(Source { options, text });
            }
            Err(problem) => problems.push(problem),
        }
    }
    sources
}

fn read(root: &Path, path: &str) -> Result<String, Problem> {
    let bytes = fs::read(root.join(path))
        .map_err(|source| Problem::Unreadable { path: path.to_owned(), source })?;
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        Problem::NotUtf8 { path: path.to_owned(), line }
    })
}

/// A path below the crate without `.`, and with `/` on every system.
fn below_crate(path: &str) -> Result<String, Problem> {
    let outside = || Problem::Outside { path: path.to_owned(), leads_to: None };
    if Path::new(path).is_absolute() {
        return Err(outside());
    }
    let mut parts = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str().unwrap_or_default()),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(outside());
            }
        }
    }
    Ok(parts.join("/"))
}

/// A glob, and the part of it that is a plain path.
struct Pattern {
    written: String,
    /// Where the walk starts: a folder, or the file where the glob is a plain path.
    base: String,
    matcher: GlobMatcher,
    /// How many folders deep it matches; `None`: any number.
    parts: Option<usize>,
}

impl Pattern {
    fn new(written: &str) -> Result<Self, Problem> {
        let path = below_crate(written)?;
        let special = |part: &&str| part.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let parts: Vec<&str> = path.split('/').collect();
        let base: Vec<&str> = parts.iter().copied().take_while(|part| !special(part)).collect();
        if base.is_empty() || path.is_empty() {
            return Err(Problem::GlobAtRoot { glob: written.to_owned() });
        }
        // Where it starts is told to cargo before anything is looked for.
        if !plain(&path) {
            return Err(Problem::Name { path: written.into() });
        }
        let matcher = GlobBuilder::new(&path)
            .literal_separator(true)
            // By default this depends on the system.
            .backslash_escape(true)
            .build()
            .map_err(|error| Problem::Glob {
                glob: written.to_owned(),
                message: error.kind().to_string(),
            })?
            .compile_matcher();
        let any = path.contains("**") || path.contains('{');
        Ok(Self {
            written: written.to_owned(),
            base: base.join("/"),
            matcher,
            parts: (!any).then_some(parts.len()),
        })
    }

    /// Whether it can match below a folder.
    fn reaches_into(&self, folder: &str) -> bool {
        self.parts.is_none_or(|parts| parts > folder.split('/').count())
    }
}

struct CrateRoot<'a> {
    path: &'a Path,
    /// Without links.
    real: Option<PathBuf>,
}

impl CrateRoot<'_> {
    /// All files that a glob matches.
    fn walk(
        &self,
        pattern: &Pattern,
        watch: &mut dyn FnMut(&str),
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<String>, Problem> {
        watch(&pattern.base);
        let before = problems.len();
        let mut paths = Vec::new();
        let mut left = Vec::new();
        let walk = WalkDir::new(self.path.join(&pattern.base))
            .follow_links(true)
            .sort_by_file_name()
            .into_iter()
            // A link to a folder elsewhere is not walked through: it can be the whole disk.
            .filter_entry(|entry| {
                if entry.file_type().is_dir()
                    && let Err(problem) = self.stays_inside(entry.path())
                {
                    if self.relative(entry.path()).is_ok_and(|path| pattern.reaches_into(&path)) {
                        left.push(problem);
                    }
                    return false;
                }
                true
            });
        for entry in walk {
            let entry = match entry {
                Ok(entry) if entry.file_type().is_file() => entry,
                Ok(_) => continue,
                Err(error) => {
                    let path = error.path().unwrap_or(self.path).to_owned();
                    let lost = error
                        .io_error()
                        .is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound);
                    let path = self.relative(&path)?;
                    // A glob that starts nowhere matches nothing, and a link that leads nowhere is
                    // a fault only where a shader should be.
                    if !lost || (path != pattern.base && pattern.matcher.is_match(&path)) {
                        problems.push(Problem::Unreadable { path, source: error.into() });
                    }
                    continue;
                }
            };
            if !pattern.matcher.is_match(self.below(entry.path())) {
                continue;
            }
            match self.stays_inside(entry.path()).and_then(|()| self.relative(entry.path())) {
                Ok(path) => paths.push(path),
                Err(problem) => problems.push(problem),
            }
        }
        problems.extend(left);
        if paths.is_empty() && problems.len() == before {
            let (glob, base) = (pattern.written.clone(), pattern.base.clone());
            return Err(Problem::NoMatch { glob, base });
        }
        Ok(paths)
    }

    /// The file that options name.
    fn named(&self, written: &str, known: &[String]) -> Result<String, Problem> {
        let path = below_crate(written)?;
        let file = self.path.join(&path);
        if !file.is_file() {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let nearest = nearest(&path, &known).map(ToOwned::to_owned);
            return Err(Problem::Missing { path: written.to_owned(), nearest });
        }
        self.stays_inside(&file)?;
        self.relative(&file)
    }

    fn below<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(self.path).unwrap_or(path)
    }

    /// A path below the crate as text.
    fn relative(&self, path: &Path) -> Result<String, Problem> {
        let below = self.below(path);
        let parts: Option<Vec<&str>> =
            below.iter().map(|part| part.to_str().filter(|part| plain(part))).collect();
        parts.map(|parts| parts.join("/")).ok_or_else(|| Problem::Name { path: below.to_owned() })
    }

    fn stays_inside(&self, path: &Path) -> Result<(), Problem> {
        let real = path.canonicalize().map_err(|source| Problem::Unreadable {
            path: self.below(path).display().to_string(),
            source,
        })?;
        if self.real.as_ref().is_some_and(|root| real.starts_with(root)) {
            return Ok(());
        }
        let path = self.below(path).display().to_string();
        Err(Problem::Outside { path, leads_to: Some(real) })
    }
}

/// A build script tells cargo of a file in one line.
fn plain(part: &str) -> bool {
    !part.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_told_of_paths_and_never_of_what_stands_in_a_second_line() {
        let dir = tempfile::tempdir().unwrap();
        let second = "shaders\ncargo::rustc-env=LD_PRELOAD=x";
        fs::create_dir_all(dir.path().join(second)).unwrap();
        fs::write(dir.path().join(second).join("a.wgsl"), "").unwrap();
        let globs = [format!("{second}/*.wgsl")];
        let options = [ShaderOptions::new(format!("{second}/a.wgsl"))];
        let (mut problems, mut watched) = (Vec::new(), Vec::new());
        let watch = &mut |path: &str| watched.push(path.to_owned());
        assert!(find(dir.path(), &globs, &options, &mut problems, watch).is_empty());
        assert!(
            matches!(problems[..], [Problem::Name { .. }, Problem::Name { .. }]),
            "{problems:?}"
        );
        assert!(watched.is_empty(), "{watched:?}");
    }
}
