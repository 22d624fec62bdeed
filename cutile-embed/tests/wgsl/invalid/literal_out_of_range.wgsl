//! says: numeric literal not representable by target type
const LARGE = 4294967296u;
