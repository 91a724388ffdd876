//! Mistakes in the modelled files. A model must find each of them: so models are known to be able to fail.

/// A mistake: a text of a file, and what stands there instead.
pub(crate) struct Mutant {
    /// The mistake.
    pub(crate) name: &'static str,
    /// The file, whose models are run: a name of `FILES`.
    pub(crate) file: &'static str,
    /// The right text, which the file has once.
    pub(crate) right: &'static str,
    /// The wrong one.
    pub(crate) wrong: &'static str,
    /// The message of the model that finds it.
    pub(crate) found: &'static str,
}

/// The modelled files, by the name of their module.
pub(crate) const FILES: [(&str, &str); 4] = [
    ("variants", "../../src/variants.rs"),
    ("meeting", "../../runtime/src/ranks/meeting.rs"),
    ("jobs", "../../src/parallel/jobs.rs"),
    ("host_lock", "../../runtime/src/memory/host_lock.rs"),
];

const DEADLOCK: &str = "deadlock";
const ASSERTION: &str = "assertion `left == right` failed";

/// All mistakes.
pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "two make one kernel at once",
        file: "variants",
        right: "let _making = lock(&place.making);",
        wrong: "",
        found: ASSERTION,
    },
    Mutant {
        name: "who has waited does not look again",
        file: "variants",
        right: "        if let Some(made) = place.made.get() {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(make()?);",
        wrong: "        let made = Arc::new(make()?);",
        found: ASSERTION,
    },
    Mutant {
        name: "the table is locked while a kernel is made",
        file: "variants",
        right: "        let place = {
            let mut places = lock(&self.places);",
        wrong: "        let mut places = lock(&self.places);
        let place = {",
        found: DEADLOCK,
    },
    Mutant {
        name: "a lock is not given back",
        file: "variants",
        right: "let _making = lock(&place.making);",
        wrong: "let _making = std::mem::ManuallyDrop::new(lock(&place.making));",
        found: DEADLOCK,
    },
    Mutant {
        name: "what was made elsewhere does not count",
        file: "variants",
        right: "lock(&self.places).insert(key, Arc::new(place));",
        wrong: "lock(&self.places).entry(key).or_insert(Arc::new(place));",
        found: ASSERTION,
    },
    Mutant {
        name: "the lock is open between looking and waiting",
        file: "meeting",
        right: "state = self.changed.wait_timeout(state, left)",
        // (The lifetime is what it is at all callers.)
        wrong: "drop(state);
            let this: &'a Self = unsafe { &*std::ptr::from_ref(self) };
            state = self.changed.wait_timeout(this.lock(), left)",
        found: DEADLOCK,
    },
    Mutant {
        name: "the last to come wakes nobody",
        file: "meeting",
        right: "            state.taken.fill(false);
            self.changed.notify_all();",
        wrong: "            state.taken.fill(false);",
        found: DEADLOCK,
    },
    Mutant {
        name: "the last to take wakes nobody",
        file: "meeting",
        right: "            state.complete = None;
            self.changed.notify_all();",
        wrong: "            state.complete = None;",
        found: DEADLOCK,
    },
    Mutant {
        name: "who leaves wakes nobody",
        file: "meeting",
        right: "        self.lock().gone[rank] = true;
        self.changed.notify_all();",
        wrong: "        self.lock().gone[rank] = true;",
        found: DEADLOCK,
    },
    Mutant {
        name: "the caller waits for nobody",
        file: "jobs",
        right: "        let woken_by = job.wait();
",
        wrong: "        let woken_by = None;
",
        found: ASSERTION,
    },
    Mutant {
        name: "a job that has returned can be joined",
        file: "jobs",
        right: "        self.close(&job);
",
        wrong: "",
        found: ASSERTION,
    },
    Mutant {
        name: "the last to leave wakes nobody",
        file: "jobs",
        right: "            self.caller.unpark();",
        wrong: "",
        found: DEADLOCK,
    },
    Mutant {
        name: "a thread sleeps without looking again",
        file: "jobs",
        right: "        let job = self.joined(&mut state);
        if",
        wrong: "        let job: Option<Arc<Job>> = None;
        if",
        found: DEADLOCK,
    },
    Mutant {
        name: "threads that sleep are not woken",
        file: "jobs",
        right: "        self.open(&job, others).into_iter().for_each(wake);",
        wrong: "        self.open(&job, others);",
        found: DEADLOCK,
    },
    Mutant {
        name: "a lock that is given back wakes nobody",
        file: "host_lock",
        right: "        if !state.waiting.is_empty() || state.ended_by.is_some() {
            self.lock.shared.changed.notify_all();
        }",
        wrong: "",
        found: DEADLOCK,
    },
    Mutant {
        name: "nobody looks for circles",
        file: "host_lock",
        right: "        if circle(&waits, thread, &self.shared, true).is_some() {",
        wrong: "        if false {",
        found: DEADLOCK,
    },
    Mutant {
        name: "a thread waits before others can see for what",
        file: "host_lock",
        right: "        waits.push((thread, Arc::clone(&self.shared)));
        let mut state = self.state();
        state.waiting.push",
        wrong: "        let mut state = self.state();
        state.waiting.push",
        found: DEADLOCK,
    },
    Mutant {
        name: "readers that let a writer go first are never let in",
        file: "host_lock",
        right: "                let_readers_in(&waits);
            }
        }",
        wrong: "            }
        }",
        found: DEADLOCK,
    },
    Mutant {
        name: "a writer comes in beside readers",
        file: "host_lock",
        right: "            HostUse::Write => !self.held.is_empty(),",
        wrong: "            HostUse::Write => false,",
        found: ASSERTION,
    },
    Mutant {
        name: "the end waits for nobody",
        file: "host_lock",
        right: "        while !state.held.is_empty() {
            state = wait(&self.shared.changed, state);
        }",
        wrong: "",
        found: DEADLOCK,
    },
    Mutant {
        name: "who has waited wakes no reader that let it go first",
        file: "host_lock",
        right: "        // Readers may have let it go first.
        self.shared.changed.notify_all();",
        wrong: "",
        found: DEADLOCK,
    },
    Mutant {
        name: "who ends all use refuses none of those who wait for it",
        file: "host_lock",
        right: "            if let Some(waiter) = lock(&of.state).waiter(waiter) {
                waiter.refused = true;
            }
            of.changed.notify_all();
        }
        waits.push",
        wrong: "            break;
        }
        waits.push",
        found: DEADLOCK,
    },
];
