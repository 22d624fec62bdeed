// Dot products of packed bytes.
requires packed_4x8_integer_dot_product;

@group(0) @binding(0) var<storage, read_write> data: array<u32>;

@compute @workgroup_size(1)
fn main() {
    data[0] = dot4U8Packed(data[1], data[2]);
    data[3] = bitcast<u32>(dot4I8Packed(data[1], data[2]));
}
