//! says: directive
//! features: SHADER_F16
const A = 1;
enable f16;
