//! Compiles the kernels of the app ahead of time.

#[allow(dead_code, reason = "the app uses what the warm-up does not")]
#[path = "src/kernels/mod.rs"]
mod kernels;

fn main() {
    cutile_build::Builder::from_metadata().warmup("app", kernels::warmup).build();
}
