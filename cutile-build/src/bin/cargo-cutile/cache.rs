//! `cargo cutile cache`: sizes, eviction and removal of the caches on disk.

mod gc;

use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::{self, Paint, print, say, size};
use crate::stores::{Kind, Place, Survey};
use clap::{Args, Subcommand};
use cutile_embed::store::{DEFAULT_CAPACITY_BYTES, FileSystemJitStore, JitStore as _};
use gc::{gc, parse_size};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::SystemTime;

const HELP: &str = "\
Caches:
  kernels  what cutile compiled at run time ($XDG_CACHE_HOME/cutile/kernels)
  shaders  what was lowered at run time (…/cutile/shaders)
  build    what build scripts compiled (…/cutile/build, CUTILE_BUILD_CACHE)
Without --kernels, --shaders or --build it is all three.

Examples:
  cargo cutile cache stats
  cargo cutile cache gc --kernels --capacity 512M
  cargo cutile cache clear --build --yes";

/// Arguments of `cache`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Cache {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show how much each cache has
    #[command(after_help = "Keys of --json (schema 1): stores[] {store, path, exists, entries, \
                            bytes,\ncapacity, temporary, stale}.")]
    Stats {
        #[command(flatten)]
        which: Which,
        /// For a program to read
        #[arg(long)]
        json: bool,
    },
    /// Remove what was used longest ago, down to the capacity
    #[command(after_help = "Temporary files that a process left which died, older than an hour, \
                            are removed\ntoo. While another process evicts, a cache is left to it.")]
    Gc {
        #[command(flatten)]
        which: Which,
        /// Of each cache, as 512M or 4G
        #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "2G")]
        capacity: u64,
    },
    /// Remove all entries; what else is there stays
    Clear {
        #[command(flatten)]
        which: Which,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// Which caches.
#[derive(Debug, Clone, Copy, Args)]
struct Which {
    /// The cache of kernels
    #[arg(long)]
    kernels: bool,
    /// The cache of shaders
    #[arg(long)]
    shaders: bool,
    /// The build cache
    #[arg(long)]
    build: bool,
}

impl Which {
    fn kinds(self) -> Vec<Kind> {
        let Self { kernels, shaders, build } = self;
        let named = Kind::ALL.into_iter().zip([kernels, shaders, build]);
        let named: Vec<Kind> = named.filter_map(|(kind, on)| on.then_some(kind)).collect();
        if named.is_empty() { Kind::ALL.to_vec() } else { named }
    }

    /// The places; of a cache that was not named one that has none is passed over.
    fn places(self, environ: &Environ) -> Result<Vec<Place>, Failure> {
        let all = !(self.kernels || self.shaders || self.build);
        let mut places = Vec::new();
        for kind in self.kinds() {
            match Place::of(kind, environ) {
                Ok(place) => places.push(place),
                Err(_) if all && kind == Kind::Build => {}
                Err(error) => return Err(error),
            }
        }
        Ok(places)
    }
}

pub(crate) fn run(cache: &Cache, environ: &Environ) -> Result<ExitCode, Failure> {
    match &cache.action {
        Action::Stats { which, json } => stats(&which.places(environ)?, *json, environ),
        Action::Gc { which, capacity } => {
            which.places(environ)?.iter().try_for_each(|place| gc(place, *capacity))
        }
        Action::Clear { which, yes } => clear(&which.places(environ)?, *yes),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn stats(places: &[Place], json: bool, environ: &Environ) -> Result<(), Failure> {
    let now = SystemTime::now();
    let mut rows = Vec::new();
    for place in places {
        rows.push((place, Survey::of(&place.path)?));
    }
    if json {
        let value = |(place, survey): &(&Place, Option<Survey>)| {
            let empty = Survey::default();
            let found = survey.as_ref().unwrap_or(&empty);
            json!({
                "store": place.kind.name(),
                "path": place.path.display().to_string(),
                "exists": survey.is_some(),
                "entries": found.entries.len(),
                "bytes": found.bytes(),
                "capacity": DEFAULT_CAPACITY_BYTES,
                "temporary": found.temps.len(),
                "stale": found.stale(now).count(),
            })
        };
        let stores: Value = rows.iter().map(value).collect();
        return output::print_json(&json!({ "schema": 1, "stores": stores }));
    }
    let paint = Paint::for_stdout(environ);
    let mut out = String::new();
    for (place, survey) in &rows {
        let _ = writeln!(
            out,
            "{}  {}",
            paint.bold(&format!("{:<8}", place.kind.name())),
            place.path.display()
        );
        let Some(survey) = survey else {
            let _ = writeln!(out, "          not there yet");
            continue;
        };
        let (bytes, bound) = (size(survey.bytes()), size(DEFAULT_CAPACITY_BYTES));
        let mut text = format!("{} entries, {bytes} of {bound}", survey.entries.len());
        if let Some(oldest) = survey.entries.iter().map(|entry| entry.used).min() {
            let _ = write!(text, ", the oldest used {} ago", age(now, oldest));
        }
        let _ = writeln!(out, "          {text}");
        let stale = survey.stale(now).count();
        if stale > 0 {
            let text =
                format!("{stale} unfinished files of processes that died; `gc` removes them");
            let _ = writeln!(out, "          {}", paint.yellow(&text));
        }
    }
    print(&out)
}

fn age(now: SystemTime, then: SystemTime) -> String {
    let seconds = now.duration_since(then).unwrap_or_default().as_secs();
    let (number, unit) = match seconds {
        0..120 => (seconds, "s"),
        120..7200 => (seconds / 60, "min"),
        7200..172_800 => (seconds / 3600, "h"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{number} {unit}")
}

fn clear(places: &[Place], yes: bool) -> Result<(), Failure> {
    let mut found = Vec::new();
    for place in places {
        match Survey::of(&place.path)? {
            Some(survey) if !survey.entries.is_empty() || !survey.temps.is_empty() => {
                found.push((place, survey));
            }
            _ => {}
        }
    }
    if found.is_empty() {
        return print("There is nothing to remove.\n");
    }
    if !yes {
        for (place, survey) in &found {
            say!(
                "{:<8}  {} entries, {}, in {}",
                place.kind.name(),
                survey.entries.len(),
                size(survey.bytes()),
                place.path.display()
            );
        }
        if !confirmed()? {
            return print("Nothing was removed.\n");
        }
    }
    for (place, survey) in found {
        let store = FileSystemJitStore::new(&place.path);
        store.and_then(|store| store.clear()).map_err(Failure::io("clear", &place.path))?;
        print(&format!(
            "{:<8}  {} entries ({}) removed\n",
            place.kind.name(),
            survey.entries.len(),
            size(survey.bytes())
        ))?;
    }
    Ok(())
}

fn confirmed() -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err("nothing was removed: there is no terminal to ask on; add --yes".into());
    }
    output::to_stderr("Remove all of it? [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(|error| format!("no answer: {error}"))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_in_the_unit_that_a_person_would_take() {
        let now = SystemTime::now();
        for (seconds, text) in
            [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 days")]
        {
            assert_eq!(age(now, now - std::time::Duration::from_secs(seconds)), text);
        }
        assert_eq!(age(now, now + std::time::Duration::from_secs(9)), "0 s");
    }
}
