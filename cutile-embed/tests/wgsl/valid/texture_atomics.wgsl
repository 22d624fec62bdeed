//! features: TEXTURE_ATOMIC
// Atomic operations on texels.
@group(0) @binding(0) var counts: texture_storage_2d<r32uint, atomic>;
@group(0) @binding(1) var levels: texture_storage_2d<r32sint, atomic>;

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    textureAtomicAdd(counts, id.xy / 2u, 1u);
    textureAtomicMax(counts, vec2<i32>(0, 0), id.x);
    textureAtomicMin(levels, vec2<i32>(0, 0), -i32(id.x));
    textureAtomicOr(counts, vec2<i32>(1, 0), id.y);
    textureAtomicXor(counts, vec2<i32>(1, 1), id.y);
    textureAtomicAnd(counts, vec2<i32>(0, 1), id.y);
}
