//! says: unknown storage format
@group(0) @binding(0) var plane: texture_storage_2d<rgba7unorm, write>;
