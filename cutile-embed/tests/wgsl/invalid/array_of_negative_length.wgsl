//! says: array
const LENGTH = 2 - 5;
var<private> table: array<f32, LENGTH>;
