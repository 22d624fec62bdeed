//! What naga does with a shader until a backend can take it: from its text, and from its IR.
//!
//! | route | what is timed |
//! |---|---|
//! | text | parse and validate, as wgpu does with `ShaderSource::Wgsl` |
//! | IR | decode and validate, as happens to an embedded shader |
//! | served | the same from `load_or_lower` on: with the key, the look-up and the digest |
//!
//! All run in turn in one process, text first in every other round and last in the others, and end in a
//! validated module with its overrides open. Capabilities are those of the declared features.

use super::gpu::Failure;
use super::shaders;
use crate::measure::median;
use cutile_embed::shader::naga::Module;
use cutile_embed::shader::naga::front::wgsl;
use cutile_embed::shader::naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use cutile_embed::shader::{
    Artifact, Config, Request, Shader, capabilities, decode_ir, encode_ir, load_or_lower_with,
};
use std::fmt;
use std::hint::black_box;
use std::time::Instant;

/// A way to a module that a backend can take.
type Route<'a> = dyn Fn() -> Option<(Module, ModuleInfo)> + 'a;

const SHADERS: [&Shader; 5] = [
    &shaders::histogram::SHADER,
    &shaders::matmul::SHADER,
    &shaders::prefix_sum::SHADER,
    &shaders::prefix_sum_subgroups::SHADER,
    &shaders::scene::SHADER,
];

/// Medians over the rounds, in microseconds, and of the ratio round by round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    pub(crate) path: &'static str,
    text: f64,
    ir: f64,
    served: f64,
    /// Text ÷ IR.
    pub(crate) ratio: f64,
}

impl Ratio {
    /// The line above those of the shaders.
    pub(crate) const HEADER: &str =
        "shader                             text/us    IR/us  served/us  text / IR, paired";
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, text, ir, served, ratio } = self;
        write!(f, "{path:<33} {text:>8.1} {ir:>8.1} {served:>10.1} {ratio:>18.2}")
    }
}

/// Measures every shader of the app.
///
/// # Errors
///
/// The first shader that one of the routes does not take.
pub(crate) fn measure(rounds: usize) -> Result<Vec<Ratio>, Failure> {
    SHADERS.iter().map(|shader| of(shader, rounds)).collect()
}

fn of(shader: &'static Shader, rounds: usize) -> Result<Ratio, Failure> {
    let request = Request::of(shader);
    let capabilities = capabilities(shader.features)?;
    let text = request.text()?;
    // Nothing is left on disk: where the shader is not embedded, it is not served either.
    let config = Config::default().disk(None);
    let Some(module) = loaded(&request, &config) else {
        return Err(format!("{} was not loaded as IR", shader.path).into());
    };
    let ir = encode_ir(&module);
    let routes: [(&str, &Route<'_>); 3] = [
        ("text", &|| validated(parsed(&text, capabilities)?, capabilities)),
        ("IR", &|| validated(decode_ir(black_box(&ir))?, capabilities)),
        ("served", &|| validated(loaded(&request, &config)?, capabilities)),
    ];
    let mut samples = Vec::with_capacity(rounds + 1);
    // The first round pays for what a process pays once, and is not counted.
    for round in 0..=rounds {
        let mut sample = [0.0; 3];
        for at in 0..routes.len() {
            let at = if round % 2 == 0 { at } else { routes.len() - 1 - at };
            let (name, route) = routes[at];
            sample[at] = timed(route)
                .ok_or_else(|| format!("{}: the route of {name} fails", shader.path))?;
        }
        samples.push(sample);
    }
    let median = |of: fn(&[f64; 3]) -> f64| median(samples[1..].iter().map(of).collect());
    Ok(Ratio {
        path: shader.path,
        text: median(|[text, ..]| *text),
        ir: median(|[_, ir, _]| *ir),
        served: median(|[.., served]| *served),
        ratio: median(|[text, ir, _]| text / ir),
    })
}

/// Microseconds that `work` takes, dropping its result left out; `None` where it has none.
fn timed<T>(work: impl FnOnce() -> Option<T>) -> Option<f64> {
    let start = Instant::now();
    let output = black_box(work());
    let us = start.elapsed().as_secs_f64() * 1e6;
    output.map(|_| us)
}

fn parsed(text: &str, capabilities: Capabilities) -> Option<Module> {
    let options = wgsl::Options { parse_doc_comments: false, capabilities };
    wgsl::Frontend::new_with_options(options).parse(black_box(text)).ok()
}

fn loaded(request: &Request<'_>, config: &Config) -> Option<Module> {
    match load_or_lower_with(request, config).ok()?.artifact {
        Artifact::Ir(module) => Some(*module),
        _ => None,
    }
}

fn validated(module: Module, capabilities: Capabilities) -> Option<(Module, ModuleInfo)> {
    let info = Validator::new(ValidationFlags::all(), capabilities).validate(&module).ok()?;
    Some((module, info))
}
