// Declarations after their use, a chain of calls, arguments of every kind.
@compute @workgroup_size(SIZE)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    buffer[id.x] = outer(id.x, Settings(2u, true)).amount;
}

fn outer(value: u32, settings: Settings) -> Settings {
    var out = settings;
    out.amount = inner(value) + inner(inner(settings.amount));
    return out;
}

fn inner(value: u32) -> u32 {
    if value > LIMIT {
        return LIMIT;
    }
    return value;
}

struct Settings {
    amount: u32,
    on: bool,
}

const LIMIT = SIZE * 100u;
const SIZE = 32u;
@group(0) @binding(0) var<storage, read_write> buffer: array<u32>;
