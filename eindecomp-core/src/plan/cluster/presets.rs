//! Ready-made clusters.
//!
//! GPU figures are the vendor's peaks without sparsity. Matmul rates are those of tensor cores, where
//! there are any for the element type with its own precision (`f32` never means TF32); skinny and
//! elementwise rates are those of the ordinary cores. Bandwidths are per direction. Latencies and
//! the overhead of a task are no vendor's figures but round numbers of the usual size.

use super::{
    Calibration, Cluster, DEFAULT_CAPACITY, Device, DeviceKind, Link, Links, Rate, Rates, Server,
};

const G: u64 = 1_000_000_000;
const T: u64 = 1000 * G;
/// Kernel launch on a GPU.
const LAUNCH: u64 = 5_000;
/// First byte over NVLink or PCIe.
const NVLINK_LATENCY: u64 = 2_000;
/// First byte over InfiniBand, from GPU to GPU.
const NETWORK_LATENCY: u64 = 5_000;

/// One rate for matmul, another one for the rest.
const fn rate(matmul: u64, other: u64) -> Rate {
    Rate {
        matmul,
        skinny: other,
        elementwise: other,
    }
}

impl Cluster {
    /// `devices` memory domains, at least 1, of one machine with as many cores, of
    /// [`DEFAULT_CAPACITY`] each. What is not measured is of the size of a current core with
    /// 256-bit vectors and its share of memory; [`Cluster::calibrated`] has real figures.
    pub fn cpus(devices: u32) -> Cluster {
        let devices = devices.max(1);
        Cluster::calibrated(devices, &Calibration::nominal(devices)).named("cpus")
    }

    /// `devices` memory domains, at least 1, of a machine that was measured, of
    /// [`DEFAULT_CAPACITY`] each.
    pub fn calibrated(devices: u32, machine: &Calibration) -> Cluster {
        Cluster {
            name: "this machine".into(),
            servers: 1,
            server: Server {
                devices: devices.max(1),
                device: Device {
                    kind: DeviceKind::Cpu,
                    capacity: DEFAULT_CAPACITY,
                    rates: machine.rates,
                    memory_bandwidth: machine.memory_bandwidth,
                    port: machine.transport.bandwidth,
                    overhead: machine.overhead,
                },
                links: Links::Switch(machine.transport),
                cores: Some(machine.cores),
                memory_bus: Some(machine.memory_bandwidth),
            },
            // 10 Gb/s Ethernet
            network: Link {
                latency: 30_000,
                bandwidth: 1_250_000_000,
            },
        }
    }

    /// A server of 8 A100 SXM 80 GB behind NVSwitch, with 8 network ports of 200 Gb/s (NVIDIA A100
    /// and DGX A100 data sheets; rates of ordinary cores: A100 architecture white paper).
    pub fn dgx_a100() -> Cluster {
        let device = Device {
            kind: DeviceKind::Gpu,
            capacity: 80 * G,
            rates: Rates {
                f64: rate(19_500 * G, 9_700 * G),
                f32: rate(19_500 * G, 19_500 * G),
                bf16: rate(312 * T, 39 * T),
                f16: rate(312 * T, 78 * T),
                int: rate(19_500 * G, 19_500 * G),
            },
            memory_bandwidth: 2_039 * G,
            port: 300 * G,
            overhead: LAUNCH,
        };
        nvswitch("dgx_a100", device, 8 * 25 * G)
    }

    /// A server of 8 H100 SXM 80 GB behind NVSwitch, with 8 network ports of 400 Gb/s (NVIDIA H100
    /// and DGX H100 data sheets; rates of ordinary cores: H100 architecture white paper).
    pub fn dgx_h100() -> Cluster {
        let device = Device {
            kind: DeviceKind::Gpu,
            capacity: 80 * G,
            rates: Rates {
                f64: rate(67 * T, 34 * T),
                f32: rate(67 * T, 67 * T),
                bf16: rate(989 * T, 133_800 * G),
                f16: rate(989 * T, 133_800 * G),
                int: rate(33_500 * G, 33_500 * G),
            },
            memory_bandwidth: 3_350 * G,
            port: 450 * G,
            overhead: LAUNCH,
        };
        nvswitch("dgx_h100", device, 8 * 50 * G)
    }

    /// A server of 8 V100 SXM2 32 GB in a hybrid cube mesh, with 4 network ports of 100 Gb/s (NVIDIA
    /// V100 and DGX-1 data sheets and white papers): two GPUs have two, one or no NVLinks of 25 GB/s;
    /// those without one use PCIe 3.0 × 16.
    pub fn dgx1_v100() -> Cluster {
        const NVLINKS: [[u64; 8]; 8] = [
            [0, 1, 1, 2, 2, 0, 0, 0],
            [1, 0, 2, 1, 0, 2, 0, 0],
            [1, 2, 0, 2, 0, 0, 1, 0],
            [2, 1, 2, 0, 0, 0, 0, 1],
            [2, 0, 0, 0, 0, 1, 1, 2],
            [0, 2, 0, 0, 1, 0, 2, 1],
            [0, 0, 1, 0, 1, 2, 0, 2],
            [0, 0, 0, 1, 2, 1, 2, 0],
        ];
        let link = |nvlinks: u64| Link {
            latency: NVLINK_LATENCY,
            bandwidth: match nvlinks {
                0 => 15_750_000_000,
                n => n * 25 * G,
            },
        };
        Cluster {
            name: "dgx1_v100".into(),
            servers: 1,
            server: Server {
                devices: 8,
                device: Device {
                    kind: DeviceKind::Gpu,
                    capacity: 32 * G,
                    rates: Rates {
                        f64: rate(7_800 * G, 7_800 * G),
                        f32: rate(15_700 * G, 15_700 * G),
                        // no bf16 units: computed in f32
                        bf16: rate(15_700 * G, 15_700 * G),
                        f16: rate(125 * T, 31_400 * G),
                        int: rate(15_700 * G, 15_700 * G),
                    },
                    memory_bandwidth: 900 * G,
                    port: 150 * G,
                    overhead: LAUNCH,
                },
                links: Links::Matrix(NVLINKS.iter().map(|r| r.map(link).to_vec()).collect()),
                cores: None,
                memory_bus: None,
            },
            network: Link {
                latency: NETWORK_LATENCY,
                bandwidth: 4 * 12_500_000_000,
            },
        }
    }

    fn named(self, name: &str) -> Cluster {
        Cluster {
            name: name.into(),
            ..self
        }
    }
}

/// 8 GPUs, each of which sends at full speed to any other.
fn nvswitch(name: &str, device: Device, network: u64) -> Cluster {
    let bandwidth = device.port;
    Cluster {
        name: name.into(),
        servers: 1,
        server: Server {
            devices: 8,
            device,
            links: Links::Switch(Link {
                latency: NVLINK_LATENCY,
                bandwidth,
            }),
            cores: None,
            memory_bus: None,
        },
        network: Link {
            latency: NETWORK_LATENCY,
            bandwidth: network,
        },
    }
}
