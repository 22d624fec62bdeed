// Numbers as they can be written.
@group(0) @binding(0) var<storage, read_write> floats: array<f32>;
@group(0) @binding(1) var<storage, read_write> words: array<u32>;
@group(0) @binding(2) var<storage, read_write> whole: array<i32>;

@compute @workgroup_size(1)
fn main() {
    floats[0] = 1e10 + 1.5e-7 + .25 + 3. + 0x1.8p3 + 1f + 0x1p-126;
    floats[1] = 3.40282347e+38f;
    floats[2] = 1.40129846e-45;
    words[0] = 0xFFFFFFFFu + 0u + 4294967295u;
    words[1] = 0x7fu;
    whole[0] = -2147483648;
    whole[1] = 2147483647i + 0x10i;
    let untyped = 7;
    whole[2] = untyped;
    floats[3] = f32(true) + f32(untyped);
}
