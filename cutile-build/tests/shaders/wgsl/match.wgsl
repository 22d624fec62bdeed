// Overrides of every type and kind, under a name that is a keyword of Rust.
override TILE: u32 = 8u;
@id(7) override scale: f32 = 0.1;
override type_: bool = true;
override SHADER: i32;
override area: u32 = TILE * TILE;

var<workgroup> cache: array<f32, TILE>;

@group(0) @binding(0) var<storage, read_write> self_: array<f32>;

@compute @workgroup_size(TILE)
fn main(@builtin(local_invocation_index) at: u32) {
    cache[at] = self_[at] * scale + f32(SHADER) + f32(area);
    workgroupBarrier();
    if type_ { self_[at] = cache[TILE - 1u - at]; }
}

@compute @workgroup_size(4, 2, 1)
fn clearAll(@builtin(local_invocation_index) at: u32) {
    self_[at] = 0.0;
}
