// Everything that packs and unpacks.
@group(0) @binding(0) var<storage, read_write> data: array<u32>;

@compute @workgroup_size(1)
fn main() {
    let four = unpack4x8unorm(data[0]) + unpack4x8snorm(data[1]);
    let two = unpack2x16unorm(data[2]) + unpack2x16snorm(data[3]) + unpack2x16float(data[4]);
    data[5] = pack4x8unorm(four) ^ pack4x8snorm(four);
    data[6] = pack2x16unorm(two) ^ pack2x16snorm(two) ^ pack2x16float(two);
    let signed_bytes = unpack4xI8(data[7]);
    let bytes = unpack4xU8(data[8]);
    data[9] = pack4xI8(signed_bytes) ^ pack4xU8(bytes);
    data[10] = pack4xI8Clamp(signed_bytes * 3) ^ pack4xU8Clamp(bytes * 3u);
}
