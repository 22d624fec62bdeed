//! says: `const_assert` failure
const TILE = 15;
const_assert TILE % 4 == 0;
