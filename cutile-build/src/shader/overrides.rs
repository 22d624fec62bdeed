//! `Overrides` of a generated module: a field an override, in its own type.
//!
//! | an override with | is a field of type |
//! |---|---|
//! | a number as default | its own; `new` gives it the number |
//! | an expression as default | `Option` of its own; `None` leaves it to the shader |
//! | no default | its own; an argument of `new` |

use super::error::ShaderConfigError as Problem;
use super::lower::Lowered;
use super::module::distinct;
use super::names::identifier;
use cutile_embed::shader::{Override, OverrideType};
use std::fmt::Write;

/// The struct and its functions, as items; nothing where there is no override.
pub(crate) fn items(shader: &Lowered, problems: &mut Vec<Problem>) -> String {
    let overrides = &shader.reflection.overrides;
    let path = shader.row.path.as_str();
    let named = overrides.iter().map(|found| (found.name.as_str(), identifier(&found.name)));
    distinct(path, "override", named, problems);
    if overrides.is_empty() {
        return String::new();
    }
    let mut fields = String::new();
    for found in overrides {
        let _ = writeln!(
            fields,
            "    /// `{}`\n    pub {}: {},",
            declaration(found),
            identifier(&found.name),
            field_type(found)
        );
    }
    let mut out = format!(
        "/// Values of the overrides.\n\
         #[derive(Clone, Copy, Debug, PartialEq)]\n\
         pub struct Overrides {{\n{fields}}}\n\
         impl Overrides {{\n"
    );
    out.push_str(&specializations(shader));
    out.push_str(&new(overrides));
    out.push_str(&constants(shader));
    out.push_str("}\n");
    if overrides.iter().all(|found| found.has_default) {
        out.push_str(
            "impl Default for Overrides {\n    fn default() -> Self {\n        Self::new()\n    \
             }\n}\n",
        );
    }
    out
}

/// As the text has it, near enough.
fn declaration(found: &Override) -> String {
    let id = found.id.map_or_else(String::new, |id| format!("@id({id}) "));
    let default = match (found.default, found.has_default) {
        (Some(value), _) => format!(" = {}", literal(found.ty, value)),
        (None, true) => " = …".to_owned(),
        (None, false) => String::new(),
    };
    format!("{id}override {}: {}{default}", found.name, found.ty)
}

fn own_type(ty: OverrideType) -> &'static str {
    match ty {
        // Rust has no stable `f16`.
        OverrideType::F16 => "f32",
        ty => ty.name(),
    }
}

fn field_type(found: &Override) -> String {
    let own = own_type(found.ty);
    if computed(found) { format!("Option<{own}>") } else { own.to_owned() }
}

/// Whether the default is an expression.
fn computed(found: &Override) -> bool {
    found.has_default && found.default.is_none()
}

/// A value that the override's type holds, as Rust literal.
fn literal(ty: OverrideType, value: f64) -> String {
    match ty {
        OverrideType::Bool => (value != 0.0).to_string(),
        // Values are checked before: these are whole numbers in range.
        OverrideType::I16 | OverrideType::U16 | OverrideType::I32 | OverrideType::U32 => {
            (value as i64).to_string()
        }
        OverrideType::F16 | OverrideType::F32 => format!("{:?}", value as f32),
        _ => format!("{value:?}"),
    }
}

/// What a field is where a set of constants does or does not name it.
fn value(found: &Override, given: Option<f64>) -> String {
    match given.or(found.default) {
        Some(value) if computed(found) => format!("Some({})", literal(found.ty, value)),
        Some(value) => literal(found.ty, value),
        None => "None".to_owned(),
    }
}

fn new(overrides: &[Override]) -> String {
    let mut arguments = Vec::new();
    let mut fields = Vec::new();
    for found in overrides {
        let field = identifier(&found.name);
        if found.has_default {
            fields.push(format!("{field}: {}", value(found, None)));
            continue;
        }
        // A constant of this name would be a pattern.
        let own = field == "SHADER" || field.starts_with("LAYOUT_");
        let argument = if own { format!("{field}_") } else { field.clone() };
        arguments.push(format!("{argument}: {}", own_type(found.ty)));
        fields.push(if own { format!("{field}: {argument}") } else { field });
    }
    format!(
        "    /// The shader's own values. What it has no value for is an argument.\n\
         \x20   #[must_use]\n\
         \x20   pub const fn new({}) -> Self {{\n\
         \x20       Self {{ {} }}\n    }}\n",
        arguments.join(", "),
        fields.join(", ")
    )
}

/// The sets that the build was given.
fn specializations(shader: &Lowered) -> String {
    if shader.constants.is_empty() {
        return String::new();
    }
    let mut sets = String::new();
    for set in &shader.constants {
        let field = |found: &Override| {
            let key = found.key();
            let given = set.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
            format!("{}: {}", identifier(&found.name), value(found, given))
        };
        let fields: Vec<String> = shader.reflection.overrides.iter().map(field).collect();
        let _ = writeln!(sets, "        Self {{ {} }},", fields.join(", "));
    }
    format!(
        "    /// The values that the build lowered the shader with.\n\
         \x20   pub const SPECIALIZATIONS: [Self; {}] = [\n{sets}    ];\n",
        shader.constants.len()
    )
}

fn constants(shader: &Lowered) -> String {
    let mut out = String::from(
        "    /// For `cutile_embed::shader::Request::constants`, and wgpu's\n\
         \x20   /// `PipelineCompilationOptions`.\n\
         \x20   #[must_use]\n\
         \x20   pub fn constants(&self) -> Vec<(&'static str, f64)> {\n",
    );
    if !shader.constants.is_empty() {
        out.push_str("        // As the build was given them, so that what it made is found.\n");
    }
    for (at, set) in shader.constants.iter().enumerate() {
        let values: Vec<String> =
            set.iter().map(|(name, value)| format!("({name:?}, {value:?})")).collect();
        let _ = writeln!(
            out,
            "        if *self == Self::SPECIALIZATIONS[{at}] {{\n\
             \x20           return ::std::vec![{}];\n        }}",
            values.join(", ")
        );
    }
    let overrides = &shader.reflection.overrides;
    let mut values = String::new();
    for found in overrides.iter().filter(|found| !computed(found)) {
        let (key, field) = (found.key(), identifier(&found.name));
        let _ = writeln!(values, "            ({key:?}, f64::from(self.{field})),");
    }
    let all = format!("::std::vec![\n{values}        ]");
    let mut optional = overrides.iter().filter(|found| computed(found)).peekable();
    if optional.peek().is_none() {
        let _ = writeln!(out, "        {all}\n    }}");
        return out;
    }
    let _ = writeln!(out, "        let mut constants: Vec<(&'static str, f64)> = {all};");
    for found in optional {
        let (key, field) = (found.key(), identifier(&found.name));
        let _ = writeln!(
            out,
            "        if let Some(value) = self.{field} {{\n\
             \x20           constants.push(({key:?}, f64::from(value)));\n        }}"
        );
    }
    out.push_str("        constants\n    }\n");
    out
}
