//! Every length, by one of each class.

/// A length of each class that cutile's launchers tell apart: 1 (it also makes strides 1), odd above
/// 1, and divisible by 2, 4, 8 and 16 and not by twice as much.
///
/// All but the first are above 1024, so that a launch check like "at least a tile" holds.
pub const LENGTHS: [usize; 6] = [1, 1025, 1026, 1028, 1032, 1040];

/// Runs a launch once for each class of a length, so that whatever the length is at run time, its
/// specialization is embedded. For integer scalars as well.
///
/// ```no_run
/// # mod kernels { pub fn add(n: usize) -> Result<(), String> { Ok(()) } }
/// # #[cfg(feature = "cuda")]
/// cutile_build::Builder::from_metadata()
///     .warmup("add", || cutile_build::any_length(kernels::add))
///     .build();
/// ```
///
/// Calls nest: two independent lengths are 36 launches, three 216. Those that lower to one image
/// share it; the build says how many specializations and how many images came out.
///
/// The lengths are those of [`LENGTHS`]; where a launch takes no length of 1, say, use
/// [`any_length_of`] with what it takes.
///
/// What it does not cover: how a pointer is aligned. The start of an allocation is aligned to 256
/// bytes; a view that starts inside one is aligned to less, and is another specialization.
///
/// # Errors
///
/// The first error of a launch.
pub fn any_length<E>(launch: impl FnMut(usize) -> Result<(), E>) -> Result<(), E> {
    any_length_of(LENGTHS, launch)
}

/// [`any_length`] with lengths of one's own: one a class that the program can meet.
///
/// # Errors
///
/// The first error of a launch.
pub fn any_length_of<E>(
    lengths: impl IntoIterator<Item = usize>,
    launch: impl FnMut(usize) -> Result<(), E>,
) -> Result<(), E> {
    lengths.into_iter().try_for_each(launch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What upstream finds of a length: its largest divisor that is a power of two, up to 16, and
    /// whether it is 1.
    fn class(length: usize) -> (usize, bool) {
        (1 << length.trailing_zeros().min(4), length == 1)
    }

    #[test]
    fn every_length_is_of_a_class_that_is_run() {
        let covered: BTreeSet<_> = LENGTHS.into_iter().map(class).collect();
        assert_eq!(covered.len(), LENGTHS.len(), "two lengths of one class");
        for length in 1..=4096 {
            assert!(covered.contains(&class(length)), "{length}");
        }
    }

    #[test]
    fn products_of_two_lengths_are_of_a_class_that_is_run() {
        let covered: BTreeSet<_> = LENGTHS
            .iter()
            .flat_map(|a| LENGTHS.map(|b| (class(*a), class(b), class(a * b))))
            .collect();
        for a in 1..=64 {
            for b in 1..=64 {
                assert!(covered.contains(&(class(a), class(b), class(a * b))), "{a} {b}");
            }
        }
    }

    #[test]
    fn calls_nest_and_stop_at_the_first_error() {
        let mut seen = BTreeSet::new();
        any_length(|m| {
            any_length(|n| {
                seen.insert((m, n));
                Ok::<_, ()>(())
            })
        })
        .unwrap();
        assert_eq!(seen.len(), 36);
        let mut calls = 0;
        let failed = any_length(|length| {
            calls += 1;
            if length == 1026 { Err(length) } else { Ok(()) }
        });
        assert_eq!((failed, calls), (Err(1026), 3));
    }
}
