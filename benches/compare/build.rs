//! Compiles the kernels ahead of time.

#[path = "src/kernels.rs"]
mod kernels;

fn main() {
    cutile_build::Builder::from_metadata().warmup("all", kernels::warmup).build();
}
