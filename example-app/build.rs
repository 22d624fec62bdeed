//! Compiles the kernels of the app ahead of time, and lowers its shaders.

#[path = "src/kernels/mod.rs"]
mod kernels;

fn main() {
    cutile_build::Builder::from_metadata()
        .warmup("app", kernels::warmup)
        .shader_module_for_wgpu()
        .build();
}
