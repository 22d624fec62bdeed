//! says: division by zero
const BROKEN: i32 = 7 / (3 - 3);
