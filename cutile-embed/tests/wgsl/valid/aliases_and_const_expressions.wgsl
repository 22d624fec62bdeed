// Aliases, and constants that naga computes.
alias Color = vec4<f32>;
alias Row = array<Color, WIDTH>;
alias Index = u32;

const WIDTH = 1 << 2;
const SCALE: f32 = sqrt(16.0) / 2.0;
const MASK = ~(0xffu << 4u) & 0xfffu;
const DIAGONAL = vec3<f32>(1.0, 2.0, 3.0).zyx;
const LARGEST = max(i32(-7), 3) * 2;
const CHOSEN = select(1.0, 2.0, WIDTH > 3);
const BASIS = mat2x2<f32>(vec2<f32>(1.0, 0.0), vec2<f32>(0.0, SCALE));

var<private> row: Row;
@group(0) @binding(0) var<storage, read_write> data: array<Color>;

@compute @workgroup_size(WIDTH, WIDTH / 2)
fn main(@builtin(local_invocation_index) index: Index) {
    row[index % u32(WIDTH)] = Color(DIAGONAL, SCALE);
    const local = WIDTH * 3 + 1;
    let turned = BASIS * vec2<f32>(CHOSEN, f32(local));
    data[index] = row[1] + Color(turned, f32(LARGEST), f32(MASK));
}
