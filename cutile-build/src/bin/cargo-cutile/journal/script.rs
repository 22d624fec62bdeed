//! What one build script did.

use cutile_build::events::{Event, JobOutcome, Line};
use std::collections::HashMap;

/// No build script runs longer, in milliseconds: sums of times cannot overflow.
const LONGEST: u64 = 365 * 24 * 3600 * 1000;

/// A run of a build script. Times are milliseconds since it began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) package: String,
    pub(crate) version: String,
    /// When it began, since 1970.
    pub(crate) unix_ms: u64,
    pub(crate) targets: Vec<String>,
    pub(crate) skipped: Option<String>,
    pub(crate) rehearsals: Vec<Rehearsal>,
    /// In the order in which they were queued.
    pub(crate) jobs: Vec<Job>,
    by_digest: HashMap<String, usize>,
    pub(crate) bundle: Option<Bundle>,
    /// When it ended; `None` while it runs, and where it died.
    pub(crate) ended: Option<u64>,
    pub(crate) error: Option<String>,
    /// When it was heard of last.
    pub(crate) last: u64,
}

/// The warm-ups on a virtual GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rehearsal {
    pub(crate) target: String,
    pub(crate) started: u64,
    pub(crate) ended: Option<u64>,
    pub(crate) error: Option<String>,
}

/// A job for tileiras.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) digest: String,
    pub(crate) target: String,
    /// None before its rehearsal ended.
    pub(crate) kernels: Vec<String>,
    pub(crate) queued: u64,
    pub(crate) slot: usize,
    /// When tileiras was started.
    pub(crate) started: Option<u64>,
    pub(crate) ended: Option<u64>,
    pub(crate) outcome: Option<JobOutcome>,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bundle {
    pub(crate) specializations: usize,
    pub(crate) images: usize,
    pub(crate) bytes: u64,
    pub(crate) shaders: usize,
}

impl Script {
    /// Takes in a line.
    pub(crate) fn take(&mut self, line: Line) {
        let Line { ms, event } = line;
        let ms = ms.min(LONGEST);
        self.last = self.last.max(ms);
        match event {
            Event::Script { package, version, unix_ms } => {
                (self.package, self.version) = (package, version);
                self.unix_ms = unix_ms.min(u64::MAX - LONGEST);
            }
            Event::Targets { targets } => self.targets = targets,
            Event::Skipped { reason } => self.skipped = Some(reason),
            Event::RehearsalStarted { target } => {
                self.rehearsals.push(Rehearsal { target, started: ms, ended: None, error: None });
            }
            Event::RehearsalEnded { target, error } => {
                let mut open = self.rehearsals.iter_mut();
                if let Some(one) = open.find(|one| one.target == target && one.ended.is_none()) {
                    (one.ended, one.error) = (Some(ms), error);
                }
            }
            Event::JobQueued { job, target } => {
                let next = self.jobs.len();
                if *self.by_digest.entry(job.clone()).or_insert(next) == next {
                    self.jobs.push(Job::queued(job, target, ms));
                }
            }
            Event::JobNamed { job, kernel } => {
                if let Some(job) = self.job(&job)
                    && !job.kernels.contains(&kernel)
                {
                    job.kernels.push(kernel);
                }
            }
            Event::JobStarted { job, slot } => {
                if let Some(job) = self.job(&job) {
                    (job.started, job.slot) = (Some(ms), slot);
                }
            }
            Event::JobEnded { job, slot, outcome } => {
                if let Some(job) = self.job(&job) {
                    (job.ended, job.slot, job.outcome) = (Some(ms), slot, Some(outcome));
                }
            }
            Event::Bundle { specializations, images, bytes, shaders } => {
                self.bundle = Some(Bundle { specializations, images, bytes, shaders });
            }
            Event::ScriptEnded { error } => (self.ended, self.error) = (Some(ms), error),
            _ => {}
        }
    }

    fn job(&mut self, digest: &str) -> Option<&mut Job> {
        self.by_digest.get(digest).map(|at| &mut self.jobs[*at])
    }

    /// Says when cargo ended: a script that was killed lived no longer.
    pub(crate) fn close(&mut self, unix_ms: u64) {
        if self.ended.is_none() {
            self.last = self.last.max(unix_ms.saturating_sub(self.unix_ms).min(LONGEST));
        }
    }

    /// How often tileiras was started.
    pub(crate) fn processes(&self) -> usize {
        self.jobs.iter().filter(|job| job.started.is_some()).count()
    }

    /// Jobs that the build cache had.
    pub(crate) fn hits(&self) -> usize {
        let hit = |job: &&Job| matches!(job.outcome, Some(JobOutcome::Cached { .. }));
        self.jobs.iter().filter(hit).count()
    }

    /// Jobs with an outcome.
    pub(crate) fn done(&self) -> usize {
        self.jobs.iter().filter(|job| job.outcome.is_some()).count()
    }

    /// Until when it is known of.
    pub(crate) fn end(&self) -> u64 {
        self.ended.unwrap_or(self.last)
    }
}

impl Job {
    fn queued(digest: String, target: String, queued: u64) -> Self {
        Self {
            digest,
            target,
            kernels: Vec::new(),
            queued,
            slot: 0,
            started: None,
            ended: None,
            outcome: None,
        }
    }

    /// Its kernel, or the start of its digest where that is not known.
    pub(crate) fn name(&self) -> String {
        match &self.kernels[..] {
            [] => format!("job {}", self.digest.chars().take(12).collect::<String>()),
            [kernel] => kernel.clone(),
            [first, others @ ..] => format!("{first} and {} more", others.len()),
        }
    }

    /// Whether tileiras runs for it.
    pub(crate) fn is_running(&self) -> bool {
        self.started.is_some() && self.outcome.is_none()
    }

    /// How long tileiras took, in milliseconds.
    pub(crate) fn took(&self) -> Option<u64> {
        Some(self.ended?.saturating_sub(self.started?))
    }

    /// The size of its image.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match self.outcome {
            Some(JobOutcome::Compiled { bytes } | JobOutcome::Cached { bytes }) => Some(bytes),
            _ => None,
        }
    }

    /// What happened instead of an image.
    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.outcome {
            Some(JobOutcome::Failed { what }) => Some(what),
            _ => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A script of lines, each a time and an event.
    pub(crate) fn script(lines: Vec<(u64, Event)>) -> Script {
        let mut script = Script::default();
        lines.into_iter().for_each(|(ms, event)| script.take(Line { ms, event }));
        script
    }

    fn queued(job: &str) -> Event {
        Event::JobQueued { job: job.into(), target: "sm_90".into() }
    }

    #[test]
    fn a_job_has_a_name_before_its_kernel_is_known() {
        let named = |kernel: &str| Event::JobNamed {
            job: "0123456789abcdef".into(),
            kernel: kernel.into(),
        };
        let mut lines = vec![(0, queued("0123456789abcdef"))];
        assert_eq!(script(lines.clone()).jobs[0].name(), "job 0123456789ab");
        lines.extend([(1, named("k::add<f32>")), (2, named("k::add<f32>"))]);
        assert_eq!(script(lines.clone()).jobs[0].name(), "k::add<f32>");
        lines.push((3, named("k::sub<f32>")));
        assert_eq!(script(lines).jobs[0].name(), "k::add<f32> and 1 more");
    }

    #[test]
    fn events_of_unknown_jobs_and_twice_the_same_job_do_no_harm() {
        let script = script(vec![
            (0, Event::JobStarted { job: "no".into(), slot: 0 }),
            (1, queued("ab")),
            (2, queued("ab")),
            (
                3,
                Event::JobEnded {
                    job: "ab".into(),
                    slot: 2,
                    outcome: JobOutcome::Cached { bytes: 7 },
                },
            ),
            (4, Event::RehearsalEnded { target: "sm_90".into(), error: None }),
        ]);
        assert_eq!((script.jobs.len(), script.hits(), script.processes()), (1, 1, 0));
        assert_eq!((script.jobs[0].bytes(), script.jobs[0].took()), (Some(7), None));
        assert!(script.rehearsals.is_empty());
    }
}
