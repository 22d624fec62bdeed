//! A toolkit whose tileiras is a script around the real one: it writes down each call, and fails
//! where a test wants it to.

use crate::places::toolkit;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It prints what the real one prints when it fails, and exits with 1.
    Fails,
    /// It does not end.
    Hangs,
    /// It kills itself with signal 9, as the system does when memory runs out.
    IsKilled,
    /// It writes an empty file and exits with 0.
    WritesEmpty,
    /// It writes the first half and exits with 0.
    WritesHalf,
    /// It compiles for sm_100 what it is asked to compile for sm_90.
    CompilesForAnother,
    /// It takes two seconds longer.
    IsSlow,
}

/// A folder that looks like a toolkit.
#[derive(Debug)]
pub struct FakeToolkit {
    folder: tempfile::TempDir,
}

impl Default for FakeToolkit {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeToolkit {
    /// A toolkit that does what the real one does.
    #[must_use]
    pub fn new() -> Self {
        let folder = crate::scratch();
        let root = folder.path();
        for dir in ["bin", "lib", "calls"] {
            fs::create_dir(root.join(dir)).expect("a folder");
        }
        let real = toolkit();
        symlink(&real.ptxas, root.join("bin/ptxas")).expect("a link");
        symlink(&real.libnvvm, root.join("lib/libnvvm.so.4")).expect("a link");
        let fake = Self { folder };
        fake.set(&[]);
        fake.write_program();
        fake
    }

    /// From now on, a job whose arguments contain the text fails in this way. The empty text is in
    /// all of them.
    pub fn set(&self, faults: &[(&str, Fault)]) {
        let real = quoted(&toolkit().tileiras);
        let mut script = "case \" $* \" in\n".to_owned();
        for (text, fault) in faults {
            let does = match fault {
                Fault::Fails => "echo 'error: failed to compile Tile IR program' >&2; exit 1",
                Fault::Hangs => "sleep 600",
                Fault::IsSlow => "sleep 2",
                Fault::IsKilled => "kill -9 $$",
                Fault::WritesEmpty => ": > \"$out\"; exit 0",
                Fault::WritesHalf => {
                    "REAL \"$@\" && head -c $(($(stat -c %s \"$out\") / 2)) \"$out\" > half && \
                     mv half \"$out\"; exit 0"
                }
                Fault::CompilesForAnother => {
                    "for word; do shift; case $word in *sm_90) word=${word%sm_90}sm_100;; esac; \
                     set -- \"$@\" \"$word\"; done; exec REAL \"$@\""
                }
            };
            let _ = writeln!(script, "*{text}*) {} ;;", does.replace("REAL", &real));
        }
        script.push_str("esac\n");
        let draft = self.root().join("draft");
        fs::write(&draft, script).expect("a script");
        fs::rename(draft, self.root().join("faults")).expect("a script");
    }

    /// The program stays the same whatever the faults: its digest is part of the identity.
    fn write_program(&self) {
        let real = quoted(&toolkit().tileiras);
        let (calls, faults) =
            (quoted(&self.root().join("calls")), quoted(&self.root().join("faults")));
        let script = format!(
            "#!/bin/sh\n\
             # The path is that of the toolkit alone, and the shell needs its own programs.\n\
             PATH=/usr/bin:/bin\n\
             case \"$1\" in --version|--list-versions) exec {real} \"$@\";; esac\n\
             file={calls}/$$\n\
             echo start $(date +%s%N) \"$@\" > $file\n\
             out=; previous=\n\
             for word; do [ \"$previous\" = -o ] && out=$word; previous=$word; done\n\
             . {faults}\n\
             {real} \"$@\"; status=$?\n\
             echo end $(date +%s%N) >> $file\n\
             exit $status\n"
        );
        let path = self.root().join("bin/tileiras");
        fs::write(&path, script).expect("a script");
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("a script");
    }

    /// Its folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// The arguments of every job so far, one line each.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        let mut calls: Vec<String> = self.records().map(|(start, ..)| start).collect();
        calls.sort();
        calls
    }

    /// The most jobs that ran at one time.
    #[must_use]
    pub fn most_at_once(&self) -> usize {
        let number = |line: &str| line.split(' ').nth(1).and_then(|n| n.parse::<u128>().ok());
        let spans: Vec<(u128, u128)> = self
            .records()
            .filter_map(|(start, end)| Some((number(&start)?, number(&end)?)))
            .collect();
        let at = |moment| spans.iter().filter(|(a, b)| *a <= moment && moment < *b).count();
        spans.iter().map(|(start, _)| at(*start)).max().unwrap_or(0)
    }

    fn records(&self) -> impl Iterator<Item = (String, String)> {
        let files: Vec<PathBuf> = fs::read_dir(self.root().join("calls"))
            .expect("the calls")
            .map(|entry| entry.expect("a call").path())
            .collect();
        files.into_iter().map(|path| {
            let text = fs::read_to_string(path).expect("a call");
            let mut lines = text.lines().map(str::to_owned);
            (lines.next().unwrap_or_default(), lines.next().unwrap_or_default())
        })
    }
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}
