// Half precision without the feature: packed, and rounded to it.
@group(0) @binding(0) var<storage, read_write> words: array<u32>;

@compute @workgroup_size(1)
fn main() {
    let pair = unpack2x16float(words[0]);
    words[1] = pack2x16float(pair * 2.0);
    words[2] = bitcast<u32>(quantizeToF16(pair.x));
}
