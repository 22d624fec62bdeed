//! Every kind of launch, from kernels that were compiled by the build: on a virtual GPU, without a
//! tileiras, and without a compile.

use cutile_tests::{Fixture, Printed};
use std::sync::OnceLock;

/// The program of the fixture, run once for all tests.
fn printed() -> &'static Printed {
    static PRINTED: OnceLock<Result<Printed, String>> = OnceLock::new();
    let printed = PRINTED.get_or_init(|| {
        let built = Fixture::new("launch-kinds", "launch-kinds").build().try_ok()?;
        Ok(built.program().on("sm_90").run())
    });
    printed.as_ref().unwrap_or_else(|what| panic!("{what}"))
}

macro_rules! kinds {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            assert_eq!(printed().line(stringify!($name)), "jit=0 backend=0 stored=0 ok");
        }
    )* };
}

kinds! {
    async_on_another_thread
    borrowed_and_shared
    compile_options
    const_grid
    cuda_graph
    generics_explicit
    generics_inferred
    generics_inferred_f16
    helper_kernel
    launch_check
    mapped_partitions
    raw_pointers
    scalars
    slices
}

#[test]
fn launch_check_violated() {
    let line = printed().line("launch_check_violated");
    assert!(line.starts_with("jit=0 backend=0 stored=0 error: "), "{line}");
    assert!(line.contains("% 64 == 0 failed"), "{line}");
}
