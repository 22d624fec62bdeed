//! Replays a recording in the child: each row is compiled as its launcher would compile it.

use super::child::panic_text;
use crate::error::nearest;
use cutile::cuda_async::device_context::with_default_device_policy;
use cutile::cuda_async::device_operation::ExecutionContext;
use cutile::cutile_compiler::ast::Module;
use cutile::tile_kernel::{TileFunctionKey, compile_from_context};
use cutile_embed::cuda::declared::{declared_kernels, find_function, parameters};
use cutile_embed::cuda::modules::{LinkedModule, linked_modules};
use cutile_embed::cuda::rehearse::Recorder;
use cutile_embed::cuda::row::{Machine, key_of};
use cutile_embed::manifest::Specialization;
use cutile_embed::recording::Recorded;
use cutile_embed::rehearsal::Line;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// SHA-256 of the text of modules as upstream takes it, by path of the module.
pub(super) type SourceHashes = BTreeMap<String, String>;

/// What messages call it, in place of a warm-up.
pub(super) const REPLAY: &str = "replay";

/// Builds a module's syntax tree.
type Build = fn() -> Module;

/// Compiles every row. What no longer fits the sources is a line of its own, and the others go on.
pub(super) fn replay(
    recorder: &mut Recorder,
    rows: &[Recorded],
    hashes: &SourceHashes,
) -> Result<(), String> {
    for row in rows {
        let specialization = row.at(recorder.default_codegen());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            replay_row(recorder.machine(), &specialization, hashes)
        }))
        .unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_text(panic.as_ref()))));
        recorder.collect(REPLAY)?;
        if let Err(what) = outcome {
            let Specialization { module, function, .. } = specialization;
            recorder.write(&Line::Stale { module, function, what })?;
        }
    }
    Ok(())
}

fn replay_row(
    machine: &Machine,
    row: &Specialization,
    hashes: &SourceHashes,
) -> Result<(), String> {
    let (module, build) = chosen(row)?;
    check_signature(row, &build())?;
    let source_hash = match hashes.get(&module.path) {
        Some(hash) => hash.clone(),
        // The same tokens: the text is the recorded one but for comments and layout, and of
        // those upstream's hash sees the layout only.
        None if module.same_text(&row.modules) => row.source_hash.clone(),
        None => {
            return Err(format!(
                "module {} changed after the recording, and its file cannot be read; record \
                 again, or launch the kernel in a warm-up",
                module.path
            ));
        }
    };
    let row = Specialization { source_hash, ..row.clone() };
    let key: TileFunctionKey = key_of(&row, machine);
    let context = context()?;
    compile_from_context(
        &context,
        build,
        &row.module,
        &row.function,
        &row.symbol,
        key.function_generics.clone(),
        key.stride_args.clone(),
        key.spec_args.clone(),
        key.scalar_hints.clone(),
        row.grid,
        key.compile_options.clone(),
        &row.source_hash,
    )
    .map(|_| ())
    .map_err(|error| format!("it does not compile: {error}"))
}

fn context() -> Result<ExecutionContext, String> {
    let stream = with_default_device_policy(|policy| policy.next_stream())
        .map_err(|error| error.to_string())?
        .map_err(|error| error.to_string())?;
    Ok(ExecutionContext::new(stream))
}

/// The linked module that declares the kernel of a row.
fn chosen(row: &Specialization) -> Result<(LinkedModule, Build), String> {
    let mut declaring: Vec<_> = linked_modules(&row.module)
        .into_iter()
        .filter(|(_, build)| find_function(&build(), &row.function).is_some())
        .collect();
    if declaring.len() > 1 {
        declaring.retain(|(module, _)| module.same_text(&row.modules));
    }
    match declaring.len() {
        1 => Ok(declaring.remove(0)),
        0 => Err(gone(row)),
        _ => Err(format!(
            "several linked modules are called {} and declare it; rename one of them",
            row.module
        )),
    }
}

fn gone(row: &Specialization) -> String {
    let name = format!("{}::{}", row.module, row.function);
    let declared: Vec<String> = declared_kernels()
        .into_iter()
        .map(|kernel| {
            let module = kernel.module.rsplit("::").next().unwrap_or_default();
            format!("{module}::{}", kernel.function)
        })
        .collect();
    let names: Vec<&str> = declared.iter().map(String::as_str).collect();
    match nearest(&name, &names) {
        Some(nearest) => format!(
            "no linked module declares it any more; did you mean {nearest}? Record again, or \
             take the row out"
        ),
        None => "no linked module declares a kernel".to_owned(),
    }
}

/// Whether the parameters of a row are those of the kernel.
fn check_signature(row: &Specialization, module: &Module) -> Result<(), String> {
    let Some(function) = find_function(module, &row.function) else { return Err(gone(row)) };
    let known = parameters(&function);
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    let changed = |what: String| {
        Err(format!("its signature changed: {what}. Record again, or take the row out"))
    };
    let recorded = row
        .specs
        .iter()
        .map(|spec| (&spec.param, true))
        .chain(row.scalar_hints.iter().map(|hint| (&hint.param, false)));
    let recorded_names: Vec<&str> = recorded.clone().map(|(param, _)| param.as_str()).collect();
    for (param, tensor) in recorded {
        match known.iter().find(|(name, _)| name == param) {
            None => {
                // What the recording has is not what it was renamed to.
                let is_new = |name: &&str| !recorded_names.contains(name);
                let new: Vec<&str> = names.iter().copied().filter(is_new).collect();
                let nearest = nearest(param, &new).or(names.first().copied()).unwrap_or("none");
                return changed(format!(
                    "the recording has a parameter `{param}`, the kernel has none; the nearest is \
                     `{nearest}`"
                ));
            }
            Some((_, is_tensor)) if *is_tensor != tensor => {
                let kind = |tensor| if tensor { "a tensor" } else { "no tensor" };
                return changed(format!(
                    "`{param}` was {} and is {}",
                    kind(tensor),
                    kind(*is_tensor)
                ));
            }
            Some(_) => {}
        }
    }
    match known
        .iter()
        .find(|(name, tensor)| *tensor && !row.specs.iter().any(|spec| spec.param == *name))
    {
        Some((name, _)) => {
            changed(format!("the kernel has a tensor `{name}`, the recording has none"))
        }
        None => Ok(()),
    }
}
