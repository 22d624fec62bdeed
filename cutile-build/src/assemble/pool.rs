//! The workers, and what they share.

use super::cache::{BuildCache, JobLock, Patience, Turn};
use super::error::{JobError, JobErrorKind};
use super::limits::worker_count;
use super::{Assembled, Assembler, Job, Outcomes, PoolOptions, Progress, hex, job};
use crate::events::{Event, JobOutcome};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long to wait before asking again, for a token of the jobserver or for another build.
const AGAIN: Duration = Duration::from_millis(50);

/// Compiles jobs while more of them arrive.
///
/// Dropped without [`finish`](Self::finish), it kills what runs and forgets the rest.
#[must_use = "its outcomes come from `finish`"]
pub struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    monitor: Option<JoinHandle<()>>,
}

/// What a [`Pool`] did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// One a digest.
    pub outcomes: Outcomes,
    /// How many processes were started.
    pub processes: usize,
    /// What the build went on without, each once: a cache that cannot be used.
    pub notes: Vec<String>,
}

struct Shared {
    assembler: Assembler,
    options: PoolOptions,
    cache: Option<BuildCache>,
    start: Instant,
    state: Mutex<State>,
    changed: Condvar,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Pending>,
    submitted: BTreeMap<[u8; 32], Arc<Job>>,
    running: BTreeMap<[u8; 32], Instant>,
    outcomes: Outcomes,
    notes: Vec<String>,
    processes: usize,
    workers: usize,
    closed: bool,
    cancelled: bool,
    ended: bool,
}

struct Pending {
    job: Arc<Job>,
    not_before: Instant,
    patience: Patience,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("progress", &self.shared.progress()).finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool without jobs. A cache that cannot be opened is a note in the [`Report`].
    pub fn start(assembler: Assembler, options: PoolOptions) -> Self {
        let mut state = State::default();
        let cache = options.cache.as_deref().and_then(|root| {
            BuildCache::open(root, assembler.identity)
                .map_err(|error| {
                    state.notes.push(format!(
                        "the build cache {} cannot be used: {error}; going on without one, so that \
                         the next build compiles again. CUTILE_BUILD_CACHE names another folder, or \
                         off",
                        root.display()
                    ));
                })
                .ok()
        });
        let shared = Arc::new(Shared {
            assembler,
            options,
            cache,
            start: Instant::now(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            ended: Condvar::new(),
        });
        let monitor = shared.options.progress.is_some().then(|| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.monitor())
        });
        Self { shared, threads: Mutex::default(), monitor }
    }

    /// Adds a job. One with the digest of an earlier one is not run again.
    pub fn submit(&self, job: Job) {
        let mut state = self.shared.state();
        if let Some(first) = state.submitted.get(&job.digest) {
            let Job { digest: _, gpu, label: _, args, bytecode } = &**first;
            if (gpu, args, bytecode) != (&job.gpu, &job.args, &job.bytecode) {
                let error = self.shared.error(JobErrorKind::Conflict, &job);
                state.outcomes.insert(job.digest, Err(error));
            }
            return;
        }
        let job = Arc::new(job);
        state.submitted.insert(job.digest, Arc::clone(&job));
        let Shared { options, .. } = &*self.shared;
        options.events.say(Event::JobQueued { job: hex(&job.digest), target: job.gpu.clone() });
        let now = Instant::now();
        let patience = Patience::default();
        state.queue.push_back(Pending { job, not_before: now, patience });
        if state.workers < worker_count(options.jobs, options.memory) {
            let slot = state.workers;
            state.workers += 1;
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::spawn(move || shared.work(slot));
            self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits for all jobs. A failure stops no other job.
    pub fn finish(mut self) -> Report {
        self.shared.state().closed = true;
        self.end();
        let mut state = self.shared.state();
        let State { outcomes, submitted, .. } = &mut *state;
        for (digest, job) in submitted {
            // A worker that panicked leaves none.
            outcomes
                .entry(*digest)
                .or_insert_with(|| Err(self.shared.error(JobErrorKind::Cancelled, job)));
        }
        Report {
            outcomes: std::mem::take(&mut state.outcomes),
            processes: state.processes,
            notes: std::mem::take(&mut state.notes),
        }
    }

    fn end(&mut self) {
        self.shared.changed.notify_all();
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for thread in std::mem::take(threads) {
            let _ = thread.join();
        }
        self.shared.state().ended = true;
        self.shared.ended.notify_all();
        if let Some(monitor) = self.monitor.take() {
            let _ = monitor.join();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state().cancelled = true;
        self.end();
    }
}

/// An outcome as the command is told of it: without what it could not show.
fn told(outcome: &Result<(Vec<u8>, bool), JobError>) -> JobOutcome {
    match outcome {
        Ok((cubin, true)) => JobOutcome::Cached { bytes: cubin.len() as u64 },
        Ok((cubin, false)) => JobOutcome::Compiled { bytes: cubin.len() as u64 },
        Err(error) => JobOutcome::Failed { what: error.to_string() },
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, kind: JobErrorKind, job: &Job) -> JobError {
        JobError::new(kind, String::new(), job, &self.assembler, &self.options.keep)
    }

    fn work(&self, slot: usize) {
        // The first runs on the token that the build script has from the start.
        let needs_token = slot > 0;
        while self.wait_for_work() {
            let _token = match &self.options.jobserver {
                Some(jobserver) if needs_token => match jobserver.try_acquire() {
                    Ok(Some(token)) => Some(token),
                    // An error as well: with fewer processes the build still ends.
                    Ok(None) | Err(_) => {
                        std::thread::sleep(AGAIN);
                        continue;
                    }
                },
                _ => None,
            };
            if let Some(pending) = self.take() {
                self.process(pending, slot);
            }
        }
    }

    /// Whether there is work; `false` is the end.
    fn wait_for_work(&self) -> bool {
        let mut state = self.state();
        loop {
            if state.cancelled {
                return false;
            }
            let now = Instant::now();
            if state.queue.iter().any(|pending| pending.not_before <= now) {
                return true;
            }
            if !state.queue.is_empty() {
                let waited = self.changed.wait_timeout(state, AGAIN);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else if state.closed {
                return false;
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn take(&self) -> Option<Pending> {
        let mut state = self.state();
        let now = Instant::now();
        let at = state.queue.iter().position(|pending| pending.not_before <= now)?;
        let pending = state.queue.remove(at)?;
        state.running.insert(pending.job.digest, now);
        Some(pending)
    }

    fn process(&self, mut pending: Pending, slot: usize) {
        let start = Instant::now();
        let outcome = match &self.cache {
            None => self.compile(&pending.job, slot, None),
            Some(cache) => {
                let key = cache.key(&pending.job);
                let cached = |shared: &Self| {
                    cache.get(&key).unwrap_or_else(|error| shared.note_cache("read", &error))
                };
                let hit = |cubin| Ok((cubin, true));
                match cached(self) {
                    Some(cubin) => hit(cubin),
                    None => match cache.turn(&key, &mut pending.patience) {
                        Turn::Theirs => return self.postpone(pending),
                        // Whoever had the turn before may have stored it in between.
                        Turn::Ours(lock) => match cached(self) {
                            Some(cubin) => hit(cubin),
                            None => {
                                let lock = Some(lock);
                                self.compile_into(cache, &key, &pending.job, slot, lock)
                            }
                        },
                        Turn::Unknown => self.compile_into(cache, &key, &pending.job, slot, None),
                    },
                }
            }
        };
        let job = hex(&pending.job.digest);
        self.options.events.say(Event::JobEnded { job, slot, outcome: told(&outcome) });
        let mut state = self.state();
        state.running.remove(&pending.job.digest);
        let seconds = start.elapsed().as_secs_f64();
        let outcome = outcome.map(|(cubin, from_cache)| Assembled { cubin, from_cache, seconds });
        // A conflict that was found in the meantime stays.
        state.outcomes.entry(pending.job.digest).or_insert(outcome);
    }

    fn postpone(&self, mut pending: Pending) {
        let mut state = self.state();
        state.running.remove(&pending.job.digest);
        pending.not_before = Instant::now() + AGAIN;
        state.queue.push_back(pending);
    }

    fn compile_into(
        &self,
        cache: &BuildCache,
        key: &[u8; 32],
        job: &Job,
        slot: usize,
        mut lock: Option<JobLock>,
    ) -> Result<(Vec<u8>, bool), JobError> {
        let outcome = self.compile(job, slot, lock.as_mut());
        if let Ok((cubin, _)) = &outcome
            && let Err(error) = cache.put(key, cubin)
        {
            self.note_cache::<()>("written", &error);
        }
        outcome
    }

    fn compile(
        &self,
        job: &Job,
        slot: usize,
        mut lock: Option<&mut JobLock>,
    ) -> Result<(Vec<u8>, bool), JobError> {
        self.options.events.say(Event::JobStarted { job: hex(&job.digest), slot });
        self.state().processes += 1;
        let mut tick = || {
            if let Some(lock) = &mut lock {
                lock.beat();
            }
            !self.state().cancelled
        };
        job::run(job, &self.assembler, &self.options, &mut tick).map(|cubin| (cubin, false))
    }

    /// Notes the first failure of a kind; the build goes on.
    fn note_cache<T>(&self, what: &str, error: &std::io::Error) -> Option<T> {
        let start = format!("the build cache cannot be {what}: ");
        let mut state = self.state();
        if !state.notes.iter().any(|note| note.starts_with(&start)) {
            state.notes.push(format!("{start}{error}; going on without it"));
        }
        None
    }

    fn progress(&self) -> Progress {
        let state = self.state();
        let longest = state.running.iter().min_by_key(|(_, since)| **since);
        Progress {
            done: state.outcomes.len(),
            total: state.submitted.len(),
            running: state.running.len(),
            longest: longest.map(|(digest, since)| {
                let name = match state.submitted.get(digest) {
                    Some(job) if job.label.is_empty() => {
                        format!("{} for {}", &hex(digest)[..12], job.gpu)
                    }
                    Some(job) => format!("{} for {}", job.label, job.gpu),
                    None => hex(digest),
                };
                (name, since.elapsed())
            }),
            elapsed: self.start.elapsed(),
        }
    }

    fn monitor(&self) {
        let mut next = self.options.progress_after;
        loop {
            let state = self.state();
            let pause = next.saturating_sub(self.start.elapsed());
            let (state, _) = self
                .ended
                .wait_timeout_while(state, pause, |state| !state.ended)
                .unwrap_or_else(PoisonError::into_inner);
            if state.ended {
                return;
            }
            drop(state);
            if let Some(report) = &self.options.progress {
                report(&self.progress());
            }
            next = self.start.elapsed() + self.options.progress_every;
        }
    }
}
