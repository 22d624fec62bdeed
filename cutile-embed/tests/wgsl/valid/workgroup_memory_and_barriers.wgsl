// A reduction in workgroup memory, and a value that is the same for the whole workgroup.
var<workgroup> partial: array<vec2<f32>, 64>;
var<workgroup> rounds: u32;

@group(0) @binding(0) var<storage, read> input: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read_write> output: array<vec2<f32>>;

@compute @workgroup_size(64)
fn main(
    @builtin(local_invocation_index) index: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    if index == 0u {
        rounds = 6u;
    }
    partial[index] = input[group.x * 64u + index];
    storageBarrier();
    let known = workgroupUniformLoad(&rounds);
    for (var round = 0u; round < known; round++) {
        let distance = 32u >> round;
        workgroupBarrier();
        if index < distance {
            partial[index] += partial[index + distance];
        }
    }
    if index == 0u {
        output[group.x] = partial[0];
    }
}
