//! says: alignment
struct Block {
    weights: array<f32, 8>,
}

@group(0) @binding(0) var<uniform> block: Block;

@fragment
fn main() -> @location(0) vec4<f32> {
    return vec4<f32>(block.weights[1]);
}
