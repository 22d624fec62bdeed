//! says: override
override size: u32 = 4u;
const DOUBLE = size * 2u;
