//! Scenarios from practice: each happened to somebody who builds, caches or ships GPU kernels. A
//! test is named after the number of its scenario.

mod building;
mod changing;
mod compiling;
mod running;
mod storing;

use cutile_tests::{Build, Built, Fixture};
use std::sync::OnceLock;

/// The probe for sm_90 and sm_100, built once for the tests that only run it.
fn probe() -> &'static Built {
    static BUILT: OnceLock<Result<Built, String>> = OnceLock::new();
    let build = || {
        let probe = Fixture::new("probe", "probe");
        probe.cargo_toml(&["sm_90", "sm_100"], "");
        probe.build().try_ok()
    };
    BUILT.get_or_init(build).as_ref().unwrap_or_else(|what| panic!("{what}"))
}

/// What a launch that found its kernel in memory prints.
const IN_MEMORY: &str = "jit=0 backend=0 stored=0 done";

/// The build with another toolkit than the one that the CUDA crates were compiled with.
fn with_toolkit<'f>(build: Build<'f>, toolkit: &cutile_tests::FakeToolkit) -> Build<'f> {
    build.script_env("CUDA_TOOLKIT_PATH", Some(toolkit.root().as_os_str()))
}
