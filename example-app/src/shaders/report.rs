//! What a run of the shaders found, as a table and for JSON.

use super::adapter::AdapterName;
use cutile_embed::shader::{Source, Stats};
use serde::{Serialize, Serializer};
use std::fmt;

/// One a specialization.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) path: &'static str,
    pub(crate) entry_point: &'static str,
    #[serde(serialize_with = "as_map")]
    pub(crate) constants: Vec<(&'static str, f64)>,
    /// Where the shader came from; `None` where it did not load.
    #[serde(serialize_with = "by_name")]
    pub(crate) source: Option<Source>,
    /// ‖output − reference‖ / ‖reference‖; `None` where nothing was computed.
    pub(crate) relative_error: Option<f64>,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// A value without the point where it is a whole number, as `TILE = 8` is written.
fn whole(value: f64) -> Option<i64> {
    // What f64 counts without gaps.
    (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64)
}

fn as_map<S: Serializer>(constants: &[(&str, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(constants.iter().map(|&(name, value)| {
        let value = whole(value).map_or_else(|| value.into(), serde_json::Value::from);
        (name, value)
    }))
}

fn by_name<S: Serializer>(source: &Option<Source>, serializer: S) -> Result<S::Ok, S::Error> {
    source.map(Source::name).serialize(serializer)
}

/// Modules by where they came from, and how often naga's WGSL front end ran.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Counts {
    embedded: u64,
    disk: u64,
    lowered: u64,
    pub(crate) front_end_calls: u64,
}

/// What a run of the shaders found.
#[derive(Debug)]
pub(crate) struct Shaders {
    /// `None` where there is no adapter and nothing was executed.
    pub(crate) adapter: Option<AdapterName>,
    pub(crate) rows: Vec<Row>,
    /// The counters before the first shader was loaded.
    pub(crate) before: Stats,
    /// The counters after the last one.
    pub(crate) after: Stats,
}

impl Shaders {
    /// What was counted during the run.
    pub(crate) fn counts(&self) -> Counts {
        let (before, after) = (self.before, self.after);
        Counts {
            embedded: after.embedded - before.embedded,
            disk: after.disk - before.disk,
            lowered: after.lowered - before.lowered,
            front_end_calls: after.front_end_calls - before.front_end_calls,
        }
    }

    /// The rows with something wrong, and what.
    pub(crate) fn errors(&self) -> impl Iterator<Item = (&Row, &str)> {
        self.rows.iter().filter_map(|row| Some((row, row.error.as_deref()?)))
    }
}

impl fmt::Display for Shaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.adapter {
            Some(adapter) => writeln!(f, "{}\n{}\n", adapter.name, adapter.about)?,
            None => f.write_str(
                "no adapter: on wgpu's noop device, which takes modules and pipelines and\n\
                 executes nothing\n\n",
            )?,
        }
        let (a, b, c, d, e) = ("shader", "entry point", "constants", "source", "error");
        writeln!(f, "{a:<33} {b:<12} {c:<11} {d:<8} {e:>8}")?;
        for row in &self.rows {
            let error = match (&row.error, row.relative_error) {
                (Some(_), _) => "failed".to_owned(),
                (None, Some(error)) => format!("{error:.1e}"),
                (None, None) => "-".to_owned(),
            };
            let constants: Vec<_> =
                row.constants.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let (path, entry_point, constants) = (row.path, row.entry_point, constants.join(","));
            let source = row.source.map_or("-", Source::name);
            writeln!(f, "{path:<33} {entry_point:<12} {constants:<11} {source:<8} {error:>8}")?;
        }
        let Counts { embedded, disk, lowered, front_end_calls } = self.counts();
        let calls = if front_end_calls == 1 { "call" } else { "calls" };
        writeln!(
            f,
            "\nmodules: {embedded} embedded, {disk} from disk, {lowered} lowered\n\
             {front_end_calls} {calls} of the WGSL front end"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(constants: Vec<(&'static str, f64)>, source: Option<Source>) -> Row {
        let (path, entry_point) = ("shaders/a.wgsl", "main");
        Row { path, entry_point, constants, source, relative_error: None, error: None }
    }

    #[test]
    fn a_row_is_what_the_readme_says() {
        let row = row(vec![("TILE", 8.0), ("SCALE", 0.5)], Some(Source::Embedded));
        let json = serde_json::to_string(&row).unwrap();
        assert_eq!(
            json,
            r#"{"path":"shaders/a.wgsl","entry_point":"main","constants":{"TILE":8,"SCALE":0.5},"#
                .to_owned()
                + r#""source":"embedded","relative_error":null}"#
        );
    }

    #[test]
    fn a_shader_that_did_not_load_has_no_source_and_an_error() {
        let failed = Row { error: Some("why".to_owned()), ..row(Vec::new(), None) };
        let json = serde_json::to_value(&failed).unwrap();
        assert_eq!((&json["source"], &json["error"]), (&serde_json::Value::Null, &"why".into()));
        let shaders = Shaders {
            adapter: None,
            rows: vec![row(Vec::new(), Some(Source::Disk)), failed],
            before: Stats::default(),
            after: Stats::default(),
        };
        assert_eq!(shaders.errors().count(), 1);
        let text = shaders.to_string();
        assert!(text.contains("failed") && text.contains("executes nothing"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
