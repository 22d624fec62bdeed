//! says: redefinition
const VALUE = 1;
fn VALUE() -> i32 {
    return 2;
}
