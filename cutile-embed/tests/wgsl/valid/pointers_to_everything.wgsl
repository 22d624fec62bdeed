// Pointers into function, private, workgroup and storage memory.
struct Pair {
    a: i32,
    b: array<i32, 3>,
}

var<private> own: i32;
var<workgroup> together: array<i32, 8>;
@group(0) @binding(0) var<storage, read_write> pairs: array<Pair>;

fn bump(at: ptr<function, i32>, by: i32) -> i32 {
    *at += by;
    return *at;
}

fn mark(at: ptr<private, i32>) {
    *at = *at - 1;
}

@compute @workgroup_size(8)
fn main(@builtin(local_invocation_index) index: u32) {
    var local = Pair(1, array<i32, 3>(2, 3, 4));
    let second = &local.b;
    (*second)[1] = 5;
    var value = local.b[1];
    let sum = bump(&value, 2);
    mark(&own);
    let place = &together[index];
    *place = sum + own;
    workgroupBarrier();
    let target_pair = &pairs[index];
    (*target_pair).a = together[7u - index];
    target_pair.b[index % 3u] = value;
}
