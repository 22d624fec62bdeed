//! Signals that would end this process while cargo runs.

use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals that end a process. This one has to outlive cargo, for the terminal and the report.
#[derive(Debug)]
pub(crate) struct Signals([(Signal, Arc<AtomicBool>); 3]);

impl Signals {
    /// From now on they end this process no more.
    pub(crate) fn catch() -> io::Result<Self> {
        let caught = [(Signal::INT, SIGINT), (Signal::TERM, SIGTERM), (Signal::HUP, SIGHUP)];
        let mut failed = Ok(());
        let flags = caught.map(|(signal, number)| {
            let flag = Arc::new(AtomicBool::new(false));
            if let Err(error) = signal_hook::flag::register(number, Arc::clone(&flag)) {
                failed = Err(error);
            }
            (signal, flag)
        });
        failed.map(|()| Self(flags))
    }

    /// Sends cargo what came in. Ctrl-C it gets from the terminal, as this process does.
    pub(crate) fn hand_on(&self, cargo: Pid) {
        for (signal, flag) in &self.0 {
            if flag.swap(false, Ordering::Relaxed) && !(*signal == Signal::INT && in_foreground()) {
                let _ = kill_process(cargo, *signal);
            }
        }
    }
}

fn in_foreground() -> bool {
    let group = getpgrp();
    [tcgetpgrp(io::stdin()), tcgetpgrp(io::stdout()), tcgetpgrp(io::stderr())].contains(&Ok(group))
}
