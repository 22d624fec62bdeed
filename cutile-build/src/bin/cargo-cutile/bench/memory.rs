//! The memory of a process and of those that it starts, as the system shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::{Child, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often is looked.
const EVERY: Duration = Duration::from_millis(50);

/// In bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Peak {
    /// The most that one process had.
    pub(super) largest: u64,
    /// The most that all had at one time.
    pub(super) in_all: u64,
}

/// Waits for a child, and looks meanwhile. Without `/proc` nothing is seen.
pub(super) fn watched(child: Child) -> io::Result<(Output, Peak)> {
    let root = child.id();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut peak = Peak::default();
            while !ended.load(Ordering::Relaxed) {
                let now = below(root, &processes());
                peak.largest = peak.largest.max(now.largest);
                peak.in_all = peak.in_all.max(now.in_all);
                std::thread::sleep(EVERY);
            }
            peak
        });
        let output = child.wait_with_output();
        ended.store(true, Ordering::Relaxed);
        let peak = watch.join().unwrap_or_default();
        Ok((output?, peak))
    })
}

#[derive(Debug, Clone, Copy)]
struct Process {
    parent: u32,
    resident: u64,
    /// The most that it ever had.
    peak: u64,
}

fn processes() -> BTreeMap<u32, Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let read = |id: u32| std::fs::read_to_string(format!("/proc/{id}/status")).ok();
    numbers.filter_map(|id| Some((id, of_status(&read(id)?)?))).collect()
}

fn of_status(status: &str) -> Option<Process> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(Process {
        parent: u32::try_from(field("PPid")?).ok()?,
        // A process that has ended has none.
        resident: field("VmRSS").unwrap_or(0) * 1024,
        peak: field("VmHWM").unwrap_or(0) * 1024,
    })
}

/// A process and those below it.
fn below(root: u32, all: &BTreeMap<u32, Process>) -> Peak {
    let mut its = BTreeSet::from([root]);
    loop {
        let more: Vec<u32> = all
            .iter()
            .filter(|(id, process)| its.contains(&process.parent) && !its.contains(id))
            .map(|(id, _)| *id)
            .collect();
        if more.is_empty() {
            break;
        }
        its.extend(more);
    }
    let found = || its.iter().filter_map(|id| all.get(id));
    Peak {
        largest: found().map(|process| process.peak).max().unwrap_or(0),
        in_all: found().map(|process| process.resident).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_below_a_process_count_and_others_do_not() {
        let process = |parent, resident, peak| Process { parent, resident, peak };
        let all = BTreeMap::from([
            (1, process(0, 100, 100)),
            (10, process(1, 5, 6)),
            (11, process(10, 7, 20)),
            (12, process(11, 1, 1)),
            (13, process(1, 50, 90)),
        ]);
        assert_eq!(below(10, &all), Peak { largest: 20, in_all: 13 });
        assert_eq!(below(99, &all), Peak::default());
    }

    #[test]
    fn a_status_is_read() {
        let status = "Name:\ttileiras\nPPid:\t12\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n";
        let process = of_status(status).unwrap();
        assert_eq!((process.parent, process.resident, process.peak), (12, 1 << 20, 2 << 20));
        assert!(of_status("Name:\tx\n").is_none());
    }
}
