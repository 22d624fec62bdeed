// Not WGSL, and naga accepts it all the same: a constant that overflows its type.
const LARGE: i32 = 2147483647 + i32(1);
