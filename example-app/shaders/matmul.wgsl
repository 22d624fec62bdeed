// c = a · b, row-major, one output of `c` an invocation.
//
// A workgroup computes a square of TILE × TILE outputs. It walks along k, and puts a square of each
// operand into workgroup memory, so that every number is read from the buffer once a workgroup and
// not once an invocation. Squares that stick out of a matrix are filled up with zeros, which add
// nothing: m, n and k are multiples of nothing.

// 16 is the most that the limit of 256 invocations a workgroup admits everywhere.
override TILE: u32 = 8u;

struct Shape {
    m: u32,
    n: u32,
    k: u32,
}

@group(0) @binding(0) var<uniform> shape: Shape;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> c: array<f32>;

var<workgroup> a_tile: array<f32, TILE * TILE>;
var<workgroup> b_tile: array<f32, TILE * TILE>;

fn a_at(row: u32, column: u32) -> f32 {
    if row < shape.m && column < shape.k {
        return a[row * shape.k + column];
    }
    return 0.0;
}

fn b_at(row: u32, column: u32) -> f32 {
    if row < shape.k && column < shape.n {
        return b[row * shape.n + column];
    }
    return 0.0;
}

@compute @workgroup_size(TILE, TILE)
fn multiply(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let row = group.y * TILE + local.y;
    let column = group.x * TILE + local.x;
    let slot = local.y * TILE + local.x;
    var sum = 0.0;
    // The bound is the same for every invocation of the workgroup: all of them reach the barriers.
    for (var start = 0u; start < shape.k; start += TILE) {
        a_tile[slot] = a_at(row, start + local.x);
        b_tile[slot] = b_at(start + local.y, column);
        workgroupBarrier();
        for (var i = 0u; i < TILE; i++) {
            sum = fma(a_tile[local.y * TILE + i], b_tile[i * TILE + local.x], sum);
        }
        // The next turn overwrites what others may still read.
        workgroupBarrier();
    }
    if row < shape.m && column < shape.n {
        c[row * shape.n + column] = sum;
    }
}
