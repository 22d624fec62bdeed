// Members at places that are written in the text, not those they would get.
struct Header {
    @size(16) count: u32,
    @align(32) scale: f32,
    @align(16) @size(32) offset: vec2<f32>,
    last: u32,
}

@group(0) @binding(0) var<storage, read> header: Header;
@group(0) @binding(1) var<storage, read_write> data: array<f32>;

@compute @workgroup_size(1)
fn main() {
    data[0] = header.scale * header.offset.x + f32(header.count + header.last);
}
