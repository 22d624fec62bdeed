// Names that hide others, values that are thrown away, functions that must be used.
@group(0) @binding(0) var<storage, read_write> data: array<u32>;
@group(0) @binding(1) var<uniform> kept_alive: vec4<u32>;

@must_use
fn twice(value: u32) -> u32 {
    return value * 2u;
}

fn effect() -> u32 {
    data[9] = 1u;
    return 3u;
}

@compute @workgroup_size(1)
fn main() {
    _ = kept_alive;
    _ = effect();
    effect();
    let value = twice(1u);
    {
        let value = twice(value + 1u);
        data[0] = value;
        {
            var value = value;
            value++;
            data[1] = value;
        }
    }
    data[2] = value;
}
