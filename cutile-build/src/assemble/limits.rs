//! How many processes at once.

use std::fs;
use std::path::Path;

/// What one tileiras process is taken to need, in bytes. An estimate; a kernel that needs more is
/// what `CUTILE_BUILD_JOBS` and `_MEMORY` are for.
pub const JOB_MEMORY: u64 = 1 << 30;

/// How many processes `jobs` and `memory` in bytes allow: at least one.
#[must_use]
pub fn worker_count(jobs: usize, memory: u64) -> usize {
    let by_memory = usize::try_from(memory / JOB_MEMORY).unwrap_or(usize::MAX);
    jobs.min(by_memory).max(1)
}

/// Bytes that this process and its children can still take: what the system has, or what the
/// control groups leave where that is less. Unknown is `u64::MAX`. `root` is `/` but in tests.
#[must_use]
pub fn available_memory(root: &Path) -> u64 {
    let system = fs::read_to_string(root.join("proc/meminfo"))
        .ok()
        .and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        })
        .map_or(u64::MAX, |kilobytes| kilobytes.saturating_mul(1024));
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    groups.lines().map(|line| left_by_group(root, line)).fold(system, u64::min)
}

/// What a line of `/proc/self/cgroup` leaves: `0::/path` (version 2) or `4:memory:/path`.
fn left_by_group(root: &Path, line: &str) -> u64 {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return u64::MAX };
    let (mount, limit, usage) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max", "memory.current"),
        list if list.split(',').any(|one| one == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
        }
        _ => return u64::MAX,
    };
    // Each group above limits as well. In a container the path may be the host's: then only the
    // root is there.
    let mount = root.join(mount);
    Path::new(path.trim_start_matches('/'))
        .ancestors()
        .map(|group| {
            let number = |file: &str| -> Option<u64> {
                fs::read_to_string(mount.join(group).join(file)).ok()?.trim().parse().ok()
            };
            number(limit).map_or(u64::MAX, |limit| limit.saturating_sub(number(usage).unwrap_or(0)))
        })
        .fold(u64::MAX, u64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn s17_sixteen_cores_and_eight_gib_run_six() {
        assert_eq!(worker_count(16, 8 * GIB / 4 * 3), 6);
        assert_eq!(worker_count(2, 8 * GIB), 2);
        assert_eq!(worker_count(16, 0), 1);
        assert_eq!(worker_count(0, u64::MAX), 1);
    }

    #[test]
    fn the_smallest_limit_counts() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert_eq!(available_memory(root), u64::MAX);
        write(root, "proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   8388608 kB\n");
        assert_eq!(available_memory(root), 8 * GIB);
        write(root, "proc/self/cgroup", "0::/user/job\n");
        write(root, "sys/fs/cgroup/user/job/memory.max", "max\n");
        assert_eq!(available_memory(root), 8 * GIB);
        write(root, "sys/fs/cgroup/user/memory.max", &format!("{}\n", 4 * GIB));
        write(root, "sys/fs/cgroup/user/memory.current", &format!("{GIB}\n"));
        assert_eq!(available_memory(root), 3 * GIB);
        write(root, "proc/self/cgroup", "5:cpu:/x\n4:memory:/of/the/host\n");
        write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", &format!("{}\n", 2 * GIB));
        assert_eq!(available_memory(root), 2 * GIB);
    }
}
