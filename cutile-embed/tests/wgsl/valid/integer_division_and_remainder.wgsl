// Divisors that can be zero, and the one quotient that overflows: the text's meaning needs checks.
@group(0) @binding(0) var<storage, read_write> whole: array<i32>;
@group(0) @binding(1) var<storage, read_write> natural: array<vec3<u32>>;

@compute @workgroup_size(1)
fn main() {
    whole[0] = whole[1] / whole[2] + whole[3] % whole[4];
    natural[0] = natural[1] / natural[2] + natural[3] % natural[4].x;
    whole[5] = (-2147483647 - 1) / whole[6];
    whole[7] = -whole[8] - -whole[9];
}
