//! Compiles the kernels of the app ahead of time.

#[path = "src/kernels/mod.rs"]
mod kernels;

fn main() {
    cutile_build::Builder::from_metadata().warmup("app", kernels::warmup).build();
}
