//! constants: base=3
//! constants: base=3, doubled=100
//! constants:
// Overrides whose defaults are expressions over other overrides, in whatever order.
override area: u32 = doubled * doubled + base;
override doubled: u32 = base * 2u;
override base: u32 = 4u;
override half_area: f32 = f32(area) / 2.0;
override is_large: bool = area > 50u && base != 0u;

@group(0) @binding(0) var<storage, read_write> data: array<f32>;

@compute @workgroup_size(base)
fn main() {
    data[0] = half_area;
    if is_large {
        data[1] = f32(doubled);
    }
}
