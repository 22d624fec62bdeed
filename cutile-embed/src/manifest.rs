//! What a bundle says about itself: the types of `manifest.json`, and of the rows of `index.bin`.
//!
//! `cutile-build` writes both, `cutile-embed` reads the index at run time, people and tools read
//! the manifest. The types name no cutile type, so that a bundle can be inspected where no CUDA
//! header exists; `cuda::row` converts.
//!
//! # Manifest, schema 1
//!
//! JSON, keys and rows sorted, no time and no absolute path:
//!
//! | member | what it is |
//! |---|---|
//! | `schema` | [`MANIFEST_SCHEMA`] |
//! | `package` | name and version of the crate that embeds |
//! | `cutile` | version of the cutile crates that lowered the kernels |
//! | `toolkit` | `--version` of tileiras and ptxas, digest of libnvvm, newest bytecode version |
//! | `targets` | the `sm_XX` compiled for, by number |
//! | `codegen` | the debug level that keys without one of their own were given |
//! | `skipped` | why nothing was built, or `null` |
//! | `left_out` | specializations that were seen and not embedded, with the reason |
//! | `kernels` | one row a specialization, with an image per target |
//! | `shaders` | one row a shader: what it declares, and what it was lowered to |
//!
//! Where there are shaders only, `cutile` is empty, and `codegen` the level of an optimized build.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the manifest's layout.
pub const MANIFEST_SCHEMA: u32 = 1;

/// A crate's name and version.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// Cargo package name.
    pub name: String,
    /// Cargo package version.
    pub version: String,
}

/// The programs that made the images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolkitIdentity {
    /// What `tileiras --version` prints.
    pub tileiras: String,
    /// What `ptxas --version` prints.
    pub ptxas: String,
    /// BLAKE3 of libnvvm, as `blake3:` and 64 hex.
    pub nvvm: String,
    /// The newest Tile IR bytecode version that tileiras reads, as `13.5`.
    pub bytecode: String,
}

/// What one crate embeds, for people and tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`MANIFEST_SCHEMA`].
    pub schema: u32,
    /// The crate that embeds.
    pub package: Package,
    /// Version of the cutile crates; empty where there are no kernels.
    pub cutile: String,
    /// The programs that made the images; `None` in a skipped build.
    pub toolkit: Option<ToolkitIdentity>,
    /// The `sm_XX` compiled for.
    pub targets: Vec<String>,
    /// The debug level given to keys without one of their own.
    pub codegen: Codegen,
    /// Why nothing was built, if nothing was.
    pub skipped: Option<String>,
    /// Specializations seen and not embedded.
    pub left_out: Vec<LeftOut>,
    /// One row a specialization.
    pub kernels: Vec<ManifestRow>,
    /// One row a shader, by path.
    #[serde(default)]
    pub shaders: Vec<ShaderRow>,
}

/// A specialization that was seen and not embedded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeftOut {
    /// `module::function<generics>`.
    pub kernel: String,
    /// The `sm_XX` it was seen for.
    pub target: String,
    /// Why it is not embedded.
    pub reason: String,
}

/// A specialization and its images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestRow {
    /// The specialization.
    #[serde(flatten)]
    pub specialization: Specialization,
    /// Target to image.
    pub images: BTreeMap<String, ImageRow>,
}

/// An image of a specialization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRow {
    /// The key in the pack and in a [`JitStore`](crate::store::JitStore), 64 hex.
    pub key: String,
    /// Length of the cubin in bytes.
    pub bytes: u64,
    /// SHA-256 of the cubin, 64 hex.
    pub sha256: String,
    /// What the launcher checks before it launches.
    pub validator: Validator,
}

/// A kernel with everything that its launcher's key holds, but for the machine it runs on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Specialization {
    /// Short name of the module that declares the kernel.
    pub module: String,
    /// The kernel.
    pub function: String,
    /// Entry symbol in the image.
    pub symbol: String,
    /// Upstream's hash of the text of the kernel's own module, 64 hex.
    pub source_hash: String,
    /// Every module of the kernel's use graph that is not cutile's own, its own included. The
    /// source hash covers one module only, so this is what tells an edited helper.
    pub modules: Vec<ModuleDigest>,
    /// Type and const arguments, as the launcher spells them.
    pub generics: Vec<String>,
    /// Per tensor, which strides are 1 (others are -1).
    pub strides: Vec<Strides>,
    /// Per tensor, what its shape, strides and base pointer are divisible by.
    pub specs: Vec<TensorSpec>,
    /// Per integer scalar and pointer, what it is divisible by.
    pub scalar_hints: Vec<ScalarHint>,
    /// The grid, where it is a constant.
    pub grid: Option<(u32, u32, u32)>,
    /// Compile options.
    pub options: Options,
}

impl Specialization {
    /// A kernel without parameters and generics, of which the rest is not known: for tests and
    /// benchmarks, which fill in what they are about.
    #[must_use]
    pub fn new(module: &str, function: &str, options: Options) -> Self {
        Self {
            module: module.to_owned(),
            function: function.to_owned(),
            symbol: format!("{function}_entry"),
            source_hash: String::new(),
            modules: Vec::new(),
            generics: Vec::new(),
            strides: Vec::new(),
            specs: Vec::new(),
            scalar_hints: Vec::new(),
            grid: None,
            options,
        }
    }

    /// `module::function<generics>`, for people.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = format!("{}::{}", self.module, self.function);
        if !self.generics.is_empty() {
            name.push('<');
            name.push_str(&self.generics.join(", "));
            name.push('>');
        }
        name
    }
}

/// A module of a use graph. The digest is over its tokens: comments and layout do not count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ModuleDigest {
    /// Path below the crate, which for the embedding crate is `crate`.
    pub path: String,
    /// SHA-256 of the tokens, 64 hex.
    pub sha256: String,
}

/// Strides of one tensor argument.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Strides {
    /// Parameter name.
    pub param: String,
    /// Per dimension 1, or -1 where it is not known.
    pub strides: Vec<i32>,
}

/// The largest power of two that divides a value, up to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Divisibility {
    /// The divisor.
    pub divisor: i32,
    /// Where it was cut off.
    pub max: i32,
}

/// Specialization bits of one tensor argument.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TensorSpec {
    /// Parameter name.
    pub param: String,
    /// Per dimension, of the length in elements.
    pub shape_div: Vec<Divisibility>,
    /// Per dimension, of the stride in elements.
    pub stride_div: Vec<Divisibility>,
    /// Per dimension, whether the stride is 1.
    pub stride_one: Vec<bool>,
    /// Of the base pointer in bytes.
    pub base_ptr_div: Divisibility,
    /// Whether no two elements share memory.
    pub elements_disjoint: bool,
}

/// Divisibility of an integer scalar, or of a pointer in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ScalarHint {
    /// Parameter name.
    pub param: String,
    /// Its divisibility.
    pub divisibility: Divisibility,
}

/// How device code is generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Codegen {
    /// Level 0 with device debug information.
    Debug,
    /// Optimized.
    Optimized {
        /// 0 to 3.
        level: u8,
        /// With line tables.
        lineinfo: bool,
    },
}

/// Compile options of a launch. Tile libraries are absent: what links one is not embedded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Options {
    /// Resident blocks per multiprocessor.
    pub occupancy: Option<i32>,
    /// Blocks per cluster.
    pub num_cta_in_cga: Option<i32>,
    /// Upper bound of what divisibility is assumed.
    pub max_divisibility: Option<i32>,
    /// Worker warps per block.
    pub num_worker_warps_per_cta: Option<i32>,
    /// Least resident blocks per multiprocessor.
    pub min_ctas_per_sm: Option<i32>,
    /// Optimization and debug information.
    pub codegen: Codegen,
    /// Instrumented for the memcheck tool.
    pub sanitize_memcheck: bool,
}

impl Options {
    /// Those of a launch that sets none.
    #[must_use]
    pub fn new(codegen: Codegen) -> Self {
        Self {
            occupancy: None,
            num_cta_in_cga: None,
            max_divisibility: None,
            num_worker_warps_per_cta: None,
            min_ctas_per_sm: None,
            codegen,
            sanitize_memcheck: false,
        }
    }
}

/// What the launcher checks before a launch. This is safety code: upstream moves bounds checks out
/// of kernels into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validator {
    /// Parameter types in order.
    pub params: Vec<Param>,
    /// Checks moved out of the kernel.
    pub launch_checks: Vec<LaunchCheck>,
}

/// Type of a kernel parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Param {
    /// A scalar.
    Scalar {
        /// Its type.
        element_type: String,
    },
    /// A raw pointer.
    Pointer {
        /// Written through.
        mutable: bool,
        /// What it points to.
        element_type: String,
    },
    /// A tensor.
    Tensor {
        /// Its element type.
        element_type: String,
        /// Its shape, -1 where it is not known.
        shape: Vec<i32>,
    },
}

/// A check that the host makes at launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchCheck {
    /// What has to hold.
    pub predicate: Predicate,
    /// The text of the error when it does not.
    pub cause: String,
}

/// A relation over a [`Term`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Predicate {
    /// The term is 0.
    Zero(Term),
    /// The term is not 0.
    Nonzero(Term),
    /// The term is above 0.
    Positive(Term),
    /// The divisor divides the term.
    DivisibleBy {
        /// The term.
        term: Term,
        /// The divisor, at least 1.
        divisor: i64,
    },
}

/// `sum(coefficient × atom) + constant`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// Coefficients, none of them 0.
    pub coefficients: Vec<(Atom, i64)>,
    /// The constant part.
    pub constant: i64,
}

/// What a term is over. Parameters and axes count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Atom {
    /// Length of a tensor along an axis.
    Dim {
        /// Kernel parameter.
        param: u32,
        /// Axis.
        axis: u32,
    },
    /// An induction variable.
    Iv(u32),
    /// Block index along a grid axis.
    TileBlockId(u32),
    /// Number of blocks along a grid axis.
    NumTileBlocks(u32),
    /// Length of the part of a tensor that a block sees.
    ViewExtent {
        /// Kernel parameter.
        param: u32,
        /// Axis.
        axis: u32,
    },
    /// Number of tiles along an axis.
    TileCount {
        /// Kernel parameter.
        param: u32,
        /// Axis.
        axis: u32,
        /// Length of a tile.
        tile: i32,
    },
}

/// A shader: what it declares, and what it was lowered to. Entry points, overrides and bindings are
/// those of the module after it was compacted to the entry points that were asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShaderRow {
    /// Path below the crate, with `/` on every system.
    pub path: String,
    /// SHA-256 of the text, 64 hex.
    pub sha256: String,
    /// Version of the naga that lowered it.
    pub naga: String,
    /// The wgpu features that it may use, by wgpu's names, sorted.
    pub features: Vec<String>,
    /// Those of naga's capabilities that it cannot do without, by naga's names.
    pub capabilities: Vec<String>,
    /// In the order of the text.
    pub entry_points: Vec<EntryPointRow>,
    /// In the order of the text.
    pub overrides: Vec<OverrideRow>,
    /// What its entry points use, by group and binding.
    pub bindings: Vec<BindingRow>,
    /// What is in `shaders.pack`.
    pub artifacts: Vec<ArtifactRow>,
}

/// An entry point of a shader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryPointRow {
    /// Its name.
    pub name: String,
    /// As WGSL's attribute: `compute`, `vertex`, `fragment` …
    pub stage: String,
    /// Invocations of a workgroup; `None` where the stage has none, or an override decides.
    pub workgroup_size: Option<[u32; 3]>,
}

/// An override of a shader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverrideRow {
    /// Its name.
    pub name: String,
    /// Its `@id`; with one, a value is given to the id and not to the name.
    pub id: Option<u16>,
    /// Its type in WGSL.
    #[serde(rename = "type")]
    pub ty: String,
    /// Whether it has a default. A program must give a value to one without.
    pub has_default: bool,
    /// The default, where it is a number: it can also be an expression.
    pub default: Option<f64>,
}

/// What a shader expects to be bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindingRow {
    /// `@group`.
    pub group: u32,
    /// `@binding`.
    pub binding: u32,
    /// The variable.
    pub name: String,
    /// WGSL's address space: `uniform`, `storage`, or `handle` for textures and samplers.
    pub space: String,
    /// The variable's type in WGSL.
    #[serde(rename = "type")]
    pub ty: String,
    /// `read`, `write`, `read_write` or `atomic`.
    pub access: String,
    /// The smallest buffer in bytes that can be bound, with one element of a runtime-sized array;
    /// `None` where it is no buffer.
    pub min_size: Option<u64>,
}

/// A form of a shader in `shaders.pack`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArtifactRow {
    /// `ir`, `spirv` or `wgsl`.
    pub kind: String,
    /// The entry points it was asked for with; empty: all.
    pub entry_points: Vec<String>,
    /// Override to value. IR keeps its overrides and has none.
    pub constants: BTreeMap<String, f64>,
    /// The key in the pack, 64 hex.
    pub key: String,
    /// Length in bytes, without the entry's header.
    pub bytes: u64,
    /// SHA-256 of those bytes, 64 hex.
    pub sha256: String,
}
