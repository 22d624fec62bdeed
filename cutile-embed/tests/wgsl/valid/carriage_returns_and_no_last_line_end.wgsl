// Lines that end in CR LF, and a last line without an end.
@compute @workgroup_size(1)
fn main() {
    var value = 1u;
    value += 2u;
}