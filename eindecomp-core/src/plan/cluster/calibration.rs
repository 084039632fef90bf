//! What was measured of a machine: the numbers that `time` reads for its CPU devices.

use serde::{Deserialize, Serialize};

use super::{Cluster, ClusterError, Link, MAX_RATE, Rate, Rates};

/// A machine's figures. Measuring is the runtime's; core only keeps and compares them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Cores that compute.
    pub cores: u32,
    /// Operations per second of one core.
    pub rates: Rates,
    /// Bytes per second that all cores together read and write.
    pub memory_bandwidth: u64,
    /// From one device's memory to another's.
    pub transport: Link,
    /// Nanoseconds that a task takes beside its work.
    pub overhead: u64,
}

impl Calibration {
    /// Figures of the size of a current machine of `cores` cores, at least 1, where nothing was
    /// measured.
    pub fn nominal(cores: u32) -> Calibration {
        const G: u64 = 1_000_000_000;
        let cores = cores.max(1);
        let rate = |matmul: u64| Rate {
            matmul: matmul * G,
            skinny: matmul * G / 4,
            elementwise: 2 * G,
        };
        Calibration {
            cores,
            rates: Rates {
                f64: rate(40),
                f32: rate(80),
                bf16: rate(40),
                f16: rate(40),
                int: rate(4),
            },
            memory_bandwidth: (10 * G).saturating_mul(cores.into()).min(MAX_RATE),
            transport: Link {
                latency: 1_000,
                bandwidth: 5 * G,
            },
            overhead: 2_000,
        }
    }

    /// As a file's text.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("figures have string keys only") + "\n"
    }

    /// Of a file's text; they are yet to be verified.
    ///
    /// # Errors
    /// Text that is no figures.
    pub fn from_json(text: &[u8]) -> Result<Calibration, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Do the figures describe a machine?
    ///
    /// # Errors
    /// The first figure that cannot be.
    pub fn verify(&self) -> Result<(), ClusterError> {
        Cluster::calibrated(1, self).verify()
    }

    /// Does a figure differ from `before` by more than 15 % of the latter? Machines whose figures
    /// only waver keep their file, and so their plans.
    pub fn differs(&self, before: &Calibration) -> bool {
        let far = |(now, before): (u64, u64)| {
            u128::from(now.abs_diff(before)) * 100 > u128::from(before) * 15
        };
        self.cores != before.cores || self.figures().zip(before.figures()).any(far)
    }

    fn figures(&self) -> impl Iterator<Item = u64> {
        let rates = self
            .rates
            .iter()
            .flat_map(|(_, r)| r.iter())
            .map(|(_, n)| n);
        let Link { latency, bandwidth } = self.transport;
        let others = [self.memory_bandwidth, latency, bandwidth, self.overhead];
        rates.chain(others)
    }
}
