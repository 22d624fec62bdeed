//! Values of overrides, checked before naga sees them: it cuts 16.5 to 16 for an integer, and takes
//! every number but 0 for true.

use super::error::{ShaderError, Stage};
use super::front::{Checked, invalid, validate};
use super::request::listed;
use naga::back::PipelineConstants;
use naga::back::pipeline_constants::{PipelineConstantError, process_overrides};
use naga::valid::Capabilities;
use naga::{ArraySize, Expression, Literal, Module, Scalar, ScalarKind, TypeInner};
use std::fmt;

/// The type of an override.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverrideType {
    /// 0 or 1.
    Bool,
    /// `i16`.
    I16,
    /// `u16`.
    U16,
    /// `i32`.
    I32,
    /// `u32`.
    U32,
    /// `f16`.
    F16,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

/// Largest finite `f16`.
const F16_MAX: f64 = 65504.0;

impl OverrideType {
    fn of(scalar: Scalar) -> Option<Self> {
        Some(match (scalar.kind, scalar.width) {
            (ScalarKind::Bool, _) => Self::Bool,
            (ScalarKind::Sint, 2) => Self::I16,
            (ScalarKind::Uint, 2) => Self::U16,
            (ScalarKind::Sint, 4) => Self::I32,
            (ScalarKind::Uint, 4) => Self::U32,
            (ScalarKind::Float, 2) => Self::F16,
            (ScalarKind::Float, 4) => Self::F32,
            (ScalarKind::Float, 8) => Self::F64,
            _ => return None,
        })
    }

    /// As WGSL spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I16 => "i16",
            Self::U16 => "u16",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// What is wrong with a value, `None` where nothing is.
    fn refuses(self, value: f64) -> Option<&'static str> {
        let (low, high) = match self {
            Self::Bool => {
                return (value != 0.0 && value != 1.0).then_some("it is neither 0 nor 1");
            }
            Self::I16 => (f64::from(i16::MIN), f64::from(i16::MAX)),
            Self::U16 => (0.0, f64::from(u16::MAX)),
            Self::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
            Self::U32 => (0.0, f64::from(u32::MAX)),
            Self::F16 => (-F16_MAX, F16_MAX),
            Self::F32 => (f64::from(f32::MIN), f64::from(f32::MAX)),
            Self::F64 => (f64::MIN, f64::MAX),
        };
        let float = matches!(self, Self::F16 | Self::F32 | Self::F64);
        if !value.is_finite() {
            Some("it is not finite")
        } else if !float && value.fract() != 0.0 {
            Some("it has a fraction")
        } else if value < low || value > high {
            Some("it is out of range")
        } else {
            None
        }
    }
}

impl fmt::Display for OverrideType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An override that a shader declares.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Override {
    /// Its name.
    pub name: String,
    /// Its `@id`; with one, a value is given to the id and not to the name.
    pub id: Option<u16>,
    /// Its type.
    pub ty: OverrideType,
    /// Whether it has a default.
    pub has_default: bool,
    /// The default, where it is one number: it can also be an expression.
    pub default: Option<f64>,
}

impl Override {
    /// What a value is given to: the id in digits, or the name.
    #[must_use]
    pub fn key(&self) -> String {
        self.id.map_or_else(|| self.name.clone(), |id| id.to_string())
    }
}

/// The overrides of a module, in the order of its text. Those without a name and an id are parts of
/// expressions and cannot be given a value.
#[must_use]
pub fn overrides(module: &Module) -> Vec<Override> {
    let row = |found: &naga::Override| {
        let TypeInner::Scalar(scalar) = module.types[found.ty].inner else { return None };
        Some(Override {
            name: found.name.clone().unwrap_or_default(),
            id: found.id,
            ty: OverrideType::of(scalar)?,
            has_default: found.init.is_some(),
            default: found.init.and_then(|init| match module.global_expressions[init] {
                Expression::Literal(literal) => number(literal),
                Expression::Constant(constant) => {
                    match module.global_expressions[module.constants[constant].init] {
                        Expression::Literal(literal) => number(literal),
                        _ => None,
                    }
                }
                _ => None,
            }),
        })
    };
    module
        .overrides
        .iter()
        .filter(|(_, found)| found.name.is_some() || found.id.is_some())
        .filter_map(|(_, found)| row(found))
        .collect()
}

fn number(literal: Literal) -> Option<f64> {
    Some(match literal {
        Literal::Bool(value) => f64::from(u8::from(value)),
        Literal::F16(value) => f64::from(f32::from(value)),
        Literal::F32(value) => f64::from(value),
        Literal::F64(value) | Literal::AbstractFloat(value) => value,
        Literal::I16(value) => f64::from(value),
        Literal::U16(value) => f64::from(value),
        Literal::I32(value) => f64::from(value),
        Literal::U32(value) => f64::from(value),
        _ => return None,
    })
}

/// Checks values for the overrides of a module; not that every override has one, see [`resolve`].
///
/// # Errors
///
/// For a name that is no override (the nearest is named; where it has an `@id`, that), a value that
/// its type does not hold exactly enough, or two values for one override.
pub fn check_constants(
    path: &str,
    module: &Module,
    constants: &[(&str, f64)],
) -> Result<(), ShaderError> {
    let known = overrides(module);
    let refused =
        |message: String, advice: String| ShaderError::new(path, Stage::Constants, message, advice);
    for (at, (name, value)) in constants.iter().enumerate() {
        if constants[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(refused(
                format!("the constant `{name}` has two values"),
                "give it one".into(),
            ));
        }
        let Some(found) = known.iter().find(|known| known.key() == *name) else {
            return Err(unknown(path, &known, name));
        };
        if let Some(why) = found.ty.refuses(*value) {
            return Err(refused(
                format!("{value} cannot be the value of `{}`, a {}: {why}", found.name, found.ty),
                format!("give it a value that {} holds", found.ty),
            ));
        }
    }
    Ok(())
}

fn unknown(path: &str, known: &[Override], name: &str) -> ShaderError {
    let keys: Vec<String> = known.iter().map(Override::key).collect();
    let (message, advice) = if let Some((found, id)) =
        known.iter().find(|known| known.name == name).and_then(|found| Some((found, found.id?)))
    {
        (
            format!("`{}` has @id({id}), and is known by that number only", found.name),
            format!("write \"{id}\" in place of \"{name}\""),
        )
    } else {
        let nearest = keys.iter().min_by_key(|key| strsim::levenshtein(key, name));
        (
            format!("the shader has no override `{name}`; it has {}", listed(&keys)),
            nearest.map_or_else(
                || "leave the constant out".to_owned(),
                |nearest| format!("did you mean `{nearest}`?"),
            ),
        )
    };
    ShaderError::new(path, Stage::Constants, message, advice)
}

/// Puts values into a module. Validated again, under the same capabilities: a value can break a rule
/// that the text keeps.
///
/// # Errors
///
/// As [`check_constants`]; for an override with neither value nor default; for what the values make
/// invalid.
pub fn resolve(
    path: &str,
    text: &str,
    checked: &Checked,
    constants: &[(&str, f64)],
    capabilities: Capabilities,
) -> Result<Checked, ShaderError> {
    check_constants(path, &checked.module, constants)?;
    for needed in overrides(&checked.module).iter().filter(|known| !known.has_default) {
        let key = needed.key();
        if !constants.iter().any(|(name, _)| *name == key) {
            return Err(ShaderError::new(
                path,
                Stage::Constants,
                format!("`{}`, a {}, has neither a value nor a default", needed.name, needed.ty),
                format!("give the constant \"{key}\" a value, or the override a default"),
            ));
        }
    }
    if checked.module.overrides.is_empty() {
        return Ok(checked.clone());
    }
    let values: PipelineConstants =
        constants.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let (module, _) =
        process_overrides(&checked.module, &checked.info, None, &values).map_err(|error| {
            match error {
                PipelineConstantError::ValidationError(error) => invalid(path, text, &error),
                error => {
                    let message = format!("with the constants {constants:?}: {error}");
                    ShaderError::new(path, Stage::Constants, message, "give other values")
                }
            }
        })?;
    let mut module = module.into_owned();
    // naga leaves them there, and resolving a module that lists some gives another one. Lengths of
    // arrays go on referring to theirs, whose initial value is the value now.
    let sizes_an_array = |inner: &TypeInner| {
        matches!(
            inner,
            TypeInner::Array { size: ArraySize::Pending(_), .. }
                | TypeInner::BindingArray { size: ArraySize::Pending(_), .. }
        )
    };
    if !module.types.iter().any(|(_, ty)| sizes_an_array(&ty.inner)) {
        module.overrides.clear();
    }
    let info = validate(path, text, &module, capabilities)?;
    Ok(Checked { module, info })
}

#[cfg(test)]
mod tests;
