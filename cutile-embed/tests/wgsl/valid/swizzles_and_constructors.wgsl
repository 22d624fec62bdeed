// Vectors from parts, parts of vectors, zero values, chains of access.
struct Holder {
    inner: vec4<f32>,
}

@group(0) @binding(0) var<storage, read_write> data: array<vec4<f32>>;

@compute @workgroup_size(1)
fn main() {
    let zero = vec4<f32>();
    let rgb = data[0].rgb;
    let mixed = vec4(rgb.xx, data[1].wz);
    let inferred = array(vec2(1.0, 2.0), mixed.yw);
    var holder = Holder(vec4(inferred[1], inferred[0]));
    holder.inner.y = rgb.b;
    holder.inner = holder.inner.wzyx;
    let empty = Holder();
    let table = mat3x2(1.0, 2.0, 3.0, 4.0, 5.0, 6.0);
    data[2] = zero + holder.inner + empty.inner + vec4(table[2], table[0].y, -1.0);
}
