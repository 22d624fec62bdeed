// Every built-in on bits, on scalars and vectors of both signs.
@group(0) @binding(0) var<storage, read_write> data: array<vec2<u32>>;

@compute @workgroup_size(1)
fn main() {
    let value = data[0];
    let whole = bitcast<vec2<i32>>(value);
    var sum = countOneBits(value) + countLeadingZeros(value) + countTrailingZeros(value);
    sum += firstLeadingBit(value) + firstTrailingBit(value) + reverseBits(value);
    sum += bitcast<vec2<u32>>(firstLeadingBit(whole) + reverseBits(whole));
    sum += extractBits(value, 3u, 7u) + insertBits(value, vec2<u32>(5u), 8u, 4u);
    sum += bitcast<vec2<u32>>(extractBits(whole, 1u, 31u));
    data[1] = (sum << vec2<u32>(3u)) | (value >> vec2<u32>(1u)) & ~sum;
    data[2].x = bitcast<u32>(whole.x >> 2u);
}
