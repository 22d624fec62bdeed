// Identifiers of other alphabets, and underscores.
@group(0) @binding(0) var<storage, read_write> données: array<f32>;

fn größe(λ: f32) -> f32 {
    return λ * 2.0;
}

@compute @workgroup_size(1)
fn main() {
    let _значение = größe(données[0]);
    let a_ = _значение + 1.0;
    données[0] = a_;
}
