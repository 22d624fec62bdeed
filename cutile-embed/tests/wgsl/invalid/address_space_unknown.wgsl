//! says: unknown address space
var<global> value: u32;
