//! Random numbers that are the same in every run, and everywhere.

/// Numbers by xorshift.
pub(crate) struct Dice(u64);

impl Dice {
    /// The numbers that `seed` gives.
    pub fn new(seed: u64) -> Dice {
        Dice(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// Less than `below`.
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below.max(1)
    }

    /// Above 0, at most 1.
    pub fn part(&mut self) -> f64 {
        (self.roll(1 << 32) + 1) as f64 / (1u64 << 32) as f64
    }
}
