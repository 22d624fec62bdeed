//! What a module shows to the outside, to find out what naga's WGSL writer leaves out: it writes no
//! `@size`, `@align` and `@early_depth_test`, and gives entry points other names.

use super::front::Checked;
use naga::{Binding, Handle, Interpolation, Module, Sampling, Type, TypeInner};
use std::fmt::Write;

/// One line for each entry point and each variable, sorted. Two modules with the same lines are used
/// in the same way, and find the same data at the same places.
pub(super) fn interface(checked: &Checked) -> Vec<String> {
    let Checked { module, info } = checked;
    let mut lines = Vec::new();
    for (at, entry) in module.entry_points.iter().enumerate() {
        let info = info.get_entry_point(at);
        // Two that have one number are told apart by their line.
        let mut used: Vec<_> = module
            .global_variables
            .iter()
            .filter(|(variable, _)| !info[*variable].is_empty())
            .filter_map(|(variable, global)| Some((global.binding?, info[variable])))
            .collect();
        used.sort_by_key(|(binding, usage)| (*binding, usage.bits()));
        let mut line = format!(
            "the entry point {}: {:?}, workgroup size {:?}, early depth test {:?}",
            entry.name, entry.stage, entry.workgroup_size, entry.early_depth_test
        );
        for argument in &entry.function.arguments {
            let _ = write!(line, ", takes {:?} ", place(&argument.binding));
            shape(module, argument.ty, &mut line);
        }
        if let Some(result) = &entry.function.result {
            let _ = write!(line, ", returns {:?} ", place(&result.binding));
            shape(module, result.ty, &mut line);
        }
        let _ = write!(line, ", uses {used:?}");
        lines.push(line);
    }
    for (_, global) in module.global_variables.iter() {
        let mut line = format!(
            "a variable: {:?}, {:?}, {:?}, ",
            global.binding, global.space, global.memory_decorations
        );
        shape(module, global.ty, &mut line);
        lines.push(line);
    }
    lines.sort();
    lines
}

/// A binding in which what is left out of the text is what that means.
fn place(binding: &Option<Binding>) -> Option<Binding> {
    let mut place = binding.clone();
    if let Some(Binding::Location { interpolation, sampling, .. }) = &mut place {
        let how = *interpolation.get_or_insert(Interpolation::Perspective);
        let flat = how == Interpolation::Flat;
        sampling.get_or_insert(if flat { Sampling::First } else { Sampling::Center });
    }
    place
}

/// A type without names, with every place in it.
fn shape(module: &Module, ty: Handle<Type>, out: &mut String) {
    let _ = match &module.types[ty].inner {
        TypeInner::Struct { members, span } => {
            out.push('{');
            for member in members {
                let _ = write!(out, "{} {:?} ", member.offset, place(&member.binding));
                shape(module, member.ty, out);
                out.push(',');
            }
            write!(out, "}} {span} bytes")
        }
        TypeInner::Array { base, size, stride } => {
            out.push('[');
            shape(module, *base, out);
            write!(out, "; {size:?} every {stride} bytes]")
        }
        TypeInner::BindingArray { base, size } => {
            out.push('[');
            shape(module, *base, out);
            write!(out, "; {size:?} bindings]")
        }
        TypeInner::Pointer { base, space } => {
            let _ = write!(out, "to {space:?} ");
            shape(module, *base, out);
            Ok(())
        }
        // No other type is made of types.
        inner => write!(out, "{inner:?}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shader::parse;
    use naga::valid::Capabilities;

    fn of(text: &str) -> Vec<String> {
        interface(&parse("a.wgsl", text, Capabilities::all()).unwrap())
    }

    const TEXT: &str = "
        struct Block { first: u32, second: vec2<f32> }
        @group(0) @binding(1) var<uniform> block: Block;
        @fragment fn main(@location(0) at: f32) -> @location(0) vec4<f32> {
            return vec4<f32>(block.second, at, 1.0);
        }";

    #[test]
    fn names_inside_and_order_change_nothing() {
        let renamed = TEXT.replace("block", "b").replace("second", "s").replace("Block", "T");
        assert_eq!(of(TEXT), of(&renamed));
    }

    #[test]
    fn what_is_left_out_is_the_default() {
        for written in ["@interpolate(perspective)", "@interpolate(perspective, center)"] {
            let text = TEXT.replace("@location(0) at", &format!("@location(0) {written} at"));
            assert_eq!(of(TEXT), of(&text));
        }
    }

    #[test]
    fn whatever_a_caller_sees_changes_it() {
        for (from, to) in [
            ("first: u32", "@size(16) first: u32"),
            ("second: vec2", "@align(16) second: vec2"),
            ("first: u32", "first: i32"),
            ("@binding(1)", "@binding(2)"),
            ("var<uniform>", "var<storage>"),
            ("fn main", "fn main1"),
            ("@fragment", "@fragment @early_depth_test(force)"),
            ("@location(0) at", "@location(0) @interpolate(linear) at"),
            ("-> @location(0)", "-> @location(1)"),
            ("vec4<f32>(block.second", "vec4<f32>(vec2<f32>()"),
        ] {
            assert!(TEXT.contains(from), "{from}");
            assert_ne!(of(TEXT), of(&TEXT.replacen(from, to, 1)), "{to}");
        }
    }
}
