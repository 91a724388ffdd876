//! One block of a kernel on its multiprocessor, event by event: the producer fills a ring of stages, teams of consumers
//! multiply and run their epilogues in turns, and the last stores drain.

/// Durations of the parts of a block's work, in clocks of the SM.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pace {
    /// From the launch to the block's first instruction.
    pub(crate) launch: f64,
    /// Until the first copy is asked for.
    pub(crate) prologue: f64,
    /// From the request for a stage to its arrival, beside the time of its bytes.
    pub(crate) latency: f64,
    /// The bytes of a stage on their way, one stage after the other.
    pub(crate) load: f64,
    /// The products of a stage: of tensor cores, or of what feeds them.
    pub(crate) product: f64,
    /// From a stage's last product until the stage is free, and until sums are complete.
    pub(crate) release: f64,
    /// The epilogue's time beside its MMAs, with the team alone.
    pub(crate) epilogue: f64,
    /// From the last store until it is seen.
    pub(crate) drain: f64,
    /// From the end of a tile until its team can multiply again: where a tile is a block, the start of the next block.
    pub(crate) restart: f64,
    /// Stages of the ring.
    pub(crate) stages: usize,
    /// Teams that take turns with tiles.
    pub(crate) teams: usize,
    /// K-tiles of each tile, of all tiles of the block.
    pub(crate) tiles: Vec<usize>,
}

/// The kind of work in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Launch,
    Prologue,
    Load,
    Product,
    Epilogue,
    Drain,
}

impl Phase {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Prologue => "prologue",
            Self::Load => "loads",
            Self::Product => "products",
            Self::Epilogue => "epilogue",
            Self::Drain => "drain",
        }
    }
}

/// A stretch of time of the producer (lane 0) or of a team (lanes from 1), in clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) lane: usize,
    pub(crate) phase: Phase,
    pub(crate) begin: f64,
    pub(crate) end: f64,
}

/// A block's time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Timeline {
    pub(crate) events: Vec<Event>,
    /// All of it, in clocks.
    pub(crate) clocks: f64,
    /// Its parts, which make all of it: the launch; the prologue; the wait for the first stage; clocks with products;
    /// without, while an epilogue runs; without either; the drain.
    pub(crate) shares: [(&'static str, f64); 7],
}

/// The stages of a ring, and when each is free and full.
struct Ring {
    free: Vec<f64>,
    /// When the last stage's bytes have been sent.
    sent: f64,
    next: usize,
}

impl Ring {
    /// Asks for the next stage as soon as it is free: its place, when it is asked for, and when it is full.
    fn load(&mut self, pace: &Pace) -> (usize, f64, f64) {
        let place = self.next % self.free.len();
        self.next += 1;
        let asked = self.free[place];
        self.sent = self.sent.max(asked) + pace.load;
        (place, asked, self.sent + pace.latency)
    }
}

/// Runs the block.
pub(crate) fn run(pace: &Pace) -> Timeline {
    let begin = pace.launch + pace.prologue;
    let mut events = vec![
        Event { lane: 0, phase: Phase::Launch, begin: 0.0, end: pace.launch },
        Event { lane: 0, phase: Phase::Prologue, begin: pace.launch, end: begin },
    ];
    let mut ring = Ring { free: vec![begin; pace.stages.max(1)], sent: begin, next: 0 };
    let teams = pace.teams.max(1);
    let mut team_free = vec![begin; teams];
    // Clocks in which the tensor cores are free again; teams multiply one after the other.
    let mut tensor = begin;
    let (mut first, mut last) = (None, begin);
    for (number, k_tiles) in pace.tiles.iter().enumerate() {
        let team = number % teams;
        let mut now = tensor.max(team_free[team]);
        let (mut asked_first, mut full_last, mut product_begin) = (f64::INFINITY, 0.0, None);
        for _ in 0..*k_tiles {
            let (place, asked, full) = ring.load(pace);
            (asked_first, full_last) = (asked_first.min(asked), full);
            let start = now.max(full);
            product_begin.get_or_insert(start);
            first.get_or_insert(start);
            now = start + pace.product;
            ring.free[place] = now + pace.release;
        }
        if let Some(start) = product_begin {
            events.push(Event { lane: 0, phase: Phase::Load, begin: asked_first, end: full_last });
            events.push(Event { lane: 1 + team, phase: Phase::Product, begin: start, end: now });
        }
        tensor = now;
        let end = now + pace.release + pace.epilogue;
        events.push(Event { lane: 1 + team, phase: Phase::Epilogue, begin: now, end });
        team_free[team] = end + pace.restart;
        last = f64::max(last, end);
    }
    let clocks = last + pace.drain;
    events.push(Event { lane: 1, phase: Phase::Drain, begin: last, end: clocks });
    let first = first.unwrap_or(last);
    let (with_products, with_epilogue, neither) = split(&events, first, last);
    let shares = [
        ("launch", pace.launch),
        ("prologue", pace.prologue),
        ("first stage", first - begin),
        ("products", with_products),
        ("epilogue alone", with_epilogue),
        ("waits for loads", neither),
        ("drain", pace.drain),
    ];
    Timeline { events, clocks, shares }.with_waits(pace)
}

impl Timeline {
    /// Within a tile's products there are waits for loads, which are as long as the products do not fill.
    fn with_waits(mut self, pace: &Pace) -> Self {
        let products = pace.tiles.iter().sum::<usize>() as f64 * pace.product;
        let waits = (self.shares[3].1 - products).max(0.0);
        self.shares[3].1 -= waits;
        self.shares[5].1 += waits;
        self
    }
}

/// Divides the clocks between two times: a tile's MMAs are under way, only an epilogue is, or neither.
fn split(events: &[Event], from: f64, to: f64) -> (f64, f64, f64) {
    let mut times: Vec<f64> =
        events.iter().flat_map(|e| [e.begin, e.end]).filter(|t| (from..=to).contains(t)).collect();
    times.extend([from, to]);
    times.sort_by(f64::total_cmp);
    let (mut products, mut epilogue, mut neither) = (0.0, 0.0, 0.0);
    for pair in times.windows(2) {
        let middle = (pair[0] + pair[1]) / 2.0;
        let runs = |phase: Phase| events.iter().any(|e| e.phase == phase && e.begin < middle && middle < e.end);
        let clocks = pair[1] - pair[0];
        if runs(Phase::Product) {
            products += clocks;
        } else if runs(Phase::Epilogue) {
            epilogue += clocks;
        } else {
            neither += clocks;
        }
    }
    (products, epilogue, neither)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pace() -> Pace {
        Pace {
            launch: 100.0,
            prologue: 50.0,
            latency: 500.0,
            load: 200.0,
            product: 400.0,
            release: 20.0,
            epilogue: 1000.0,
            drain: 300.0,
            restart: 0.0,
            stages: 4,
            teams: 1,
            tiles: vec![8, 8],
        }
    }

    /// By hand: the first stage is full at 100 + 50 + 200 + 500; two tiles of 8 products without waits, two epilogues.
    #[test]
    fn a_block_is_as_by_hand() {
        let timeline = run(&pace());
        assert_eq!(timeline.clocks, 850.0 + 2.0 * (8.0 * 400.0 + 20.0 + 1000.0) + 300.0);
        let shares: Vec<f64> = timeline.shares.iter().map(|(_, clocks)| *clocks).collect();
        assert_eq!(shares, [100.0, 50.0, 700.0, 6400.0, 2040.0, 0.0, 300.0]);
        // Between tiles that are blocks, the next one has to begin.
        assert_eq!(run(&Pace { restart: 700.0, ..pace() }).clocks, timeline.clocks + 700.0);
        // Two teams: the first one's epilogue runs during the second one's products.
        let both = run(&Pace { teams: 2, ..pace() });
        assert_eq!(both.clocks, 850.0 + 2.0 * 3200.0 + 1020.0 + 300.0);
    }

    proptest! {
        /// The shares make the whole; more of anything takes no less time; and no time is less than that of its products or
        /// of its loads.
        #[test]
        fn more_work_takes_no_less_time(
            numbers in prop::collection::vec(1.0..2000.0_f64, 9),
            stages in 2..8usize,
            teams in 1..3usize,
            tiles in prop::collection::vec(0..12usize, 1..6),
            which in 0..12usize,
        ) {
            let [launch, prologue, latency, load, product, release, epilogue, drain, restart] = numbers[..] else { unreachable!() };
            let pace =
                Pace { launch, prologue, latency, load, product, release, epilogue, drain, restart, stages, teams, tiles };
            let timeline = run(&pace);
            let sum: f64 = timeline.shares.iter().map(|(_, clocks)| *clocks).sum();
            prop_assert!((sum - timeline.clocks).abs() < 1e-6 * timeline.clocks, "{sum} {}", timeline.clocks);
            let k_tiles = pace.tiles.iter().sum::<usize>() as f64;
            prop_assert!(timeline.clocks >= k_tiles * product.max(load));
            let mut more = pace.clone();
            match which {
                0 => more.launch += 100.0,
                1 => more.prologue += 100.0,
                2 => more.latency += 100.0,
                3 => more.load += 100.0,
                4 => more.product += 100.0,
                5 => more.release += 100.0,
                6 => more.epilogue += 100.0,
                7 => more.drain += 100.0,
                8 => more.tiles.push(3),
                9 => more.tiles[0] += 1,
                10 => more.restart += 100.0,
                _ => more.stages -= 1,
            }
            prop_assert!(run(&more).clocks >= timeline.clocks - 1e-6, "{which}");
        }
    }
}
