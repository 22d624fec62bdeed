//! says: wgpu_ray_query
enable wgpu_ray_query;
@group(0) @binding(0) var scene: acceleration_structure;
