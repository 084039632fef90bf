//! NumPy's default generator, so that inputs, and with them checksums, are those of the peers.

/// `numpy.random.default_rng(seed)`: PCG64 (XSL-RR), seeded by a `SeedSequence`.
pub struct Generator {
    state: u128,
    increment: u128,
    /// The high half of a drawn word, which the next draw of 32 bits takes.
    kept: Option<u32>,
}

const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;

impl Generator {
    pub fn new(seed: u32) -> Generator {
        let words = seed_words(seed);
        let pair = |at: usize| u128::from(words[at]) << 64 | u128::from(words[at + 1]);
        let mut generator = Generator {
            state: 0,
            increment: pair(2) << 1 | 1,
            kept: None,
        };
        generator.step();
        generator.state = generator.state.wrapping_add(pair(0));
        generator.step();
        generator
    }

    fn step(&mut self) {
        self.state = self
            .state
            .wrapping_mul(MULTIPLIER)
            .wrapping_add(self.increment);
    }

    fn bits(&mut self) -> u32 {
        if let Some(high) = self.kept.take() {
            return high;
        }
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        let word = folded.rotate_right((self.state >> 122) as u32);
        self.kept = Some((word >> 32) as u32);
        word as u32
    }

    /// Like `random(dtype=float32) - 0.5`: in [-0.5, 0.5).
    pub fn uniform(&mut self) -> f32 {
        (self.bits() >> 8) as f32 / (1 << 24) as f32 - 0.5
    }
}

/// `SeedSequence(seed).generate_state(4, uint64)`.
fn seed_words(seed: u32) -> [u64; 4] {
    let mut factor = 0x43b0_d7e5_u32;
    let mut hashed = |value: u32| {
        let value = value ^ factor;
        factor = factor.wrapping_mul(0x931e_8875);
        let value = value.wrapping_mul(factor);
        value ^ value >> 16
    };
    let mut pool = [seed, 0, 0, 0].map(&mut hashed);
    for from in 0..4 {
        for to in (0..4).filter(|&to| to != from) {
            let left = pool[to].wrapping_mul(0xca01_f9dd);
            let mixed = left.wrapping_sub(hashed(pool[from]).wrapping_mul(0x4973_f715));
            pool[to] = mixed ^ mixed >> 16;
        }
    }
    let mut factor = 0x8b51_f9dd_u32;
    let mut at = 0;
    [(); 4].map(|()| {
        let mut half = || {
            let value = pool[at % 4] ^ factor;
            at += 1;
            factor = factor.wrapping_mul(0x58f3_8ded);
            let value = value.wrapping_mul(factor);
            u64::from(value ^ value >> 16)
        };
        let low = half();
        half() << 32 | low
    })
}
