// Every number that a compute invocation knows of itself.
@group(0) @binding(0) var<storage, read_write> seen: array<u32>;

@compute @workgroup_size(4, 2, 3)
fn number(
    @builtin(global_invocation_id) global: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let line = group.x + groups.x * (group.y + groups.y * group.z);
    seen[line * 24u + index] = global.x + local.y * 10u + local.z * 100u;
}
