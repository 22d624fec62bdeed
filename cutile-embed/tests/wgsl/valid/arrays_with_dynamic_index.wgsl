// Arrays by value, in private and function memory, indexed by what is not known.
const WEIGHTS = array<f32, 5>(0.1, 0.2, 0.4, 0.2, 0.1);
var<private> state: array<array<u32, 4>, 2>;

@group(0) @binding(0) var<storage, read_write> data: array<f32>;

fn pick(table: array<f32, 5>, at: u32) -> f32 {
    var copy = table;
    return copy[at];
}

@compute @workgroup_size(16)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    state[id.y & 1u][id.x & 3u] += 1u;
    var mask = vec4<bool>(true, false, true, false);
    mask[id.x & 3u] = false;
    let basis = mat2x2<f32>(1.0, 2.0, 3.0, 4.0);
    var turned = basis;
    turned[id.x & 1u][id.y & 1u] = f32(state[0][1]);
    let known = vec3<f32>(1.0, 2.0, 3.0);
    data[id.x] = pick(WEIGHTS, id.x % 5u) + turned[1].x + known[id.x % 3u] + f32(any(mask));
}
