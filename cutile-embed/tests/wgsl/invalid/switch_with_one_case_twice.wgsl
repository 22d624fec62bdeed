//! says: case
@compute @workgroup_size(1)
fn main() {
    var value = 1;
    switch value {
        case 1: {
            value = 2;
        }
        case 1: {
            value = 3;
        }
        default: {
        }
    }
}
