// An array without a length: bare, and as the last member.
struct List {
    length: u32,
    items: array<vec3<f32>>,
}

@group(0) @binding(0) var<storage, read> bare: array<array<f32, 4>>;
@group(0) @binding(1) var<storage, read_write> list: List;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let bound = min(arrayLength(&bare), arrayLength(&list.items));
    if id.x >= bound {
        return;
    }
    let row = bare[id.x];
    list.items[id.x] = vec3<f32>(row[0], row[1], row[2] + row[3]);
    list.length = bound;
}
