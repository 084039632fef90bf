//! The figures of GPUs: memory, rates and links, measured by work of growing size.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use eindecomp_core::ein::DType;
use eindecomp_core::plan::Cluster;
use eindecomp_core::plan::cluster::{Device, DeviceKind, Link, Links, Rate, Rates, Server};

use super::call::{Compute, Gemm, Matrix, Place as Operand, Pointer};
use super::driver::{
    Address, Command, Driver, GpuError, MATMUL_WORKSPACE, MemoryId, Op, Place, StreamId,
};
use super::executor::{Gpus, Held};

/// Work that takes so long is measured well enough.
const ENOUGH: Duration = Duration::from_millis(5);
/// Largest matrices and copies that are tried.
const ROWS: u64 = 8192;
const BYTES: u64 = 256 << 20;
/// Kernel launch, and first byte over a link: round numbers of the usual size, in nanoseconds.
const LAUNCH: u64 = 5_000;
const LATENCY: u64 = 2_000;

/// A cluster of these devices, all on one server, each with the figures of the slowest.
///
/// # Errors
/// No device, or one that fails.
pub fn measure(gpus: &Gpus) -> Result<Cluster, GpuError> {
    let devices = gpus.driver.devices();
    let Some(first) = devices.first() else {
        return Err(GpuError::NoDevice("it counts 0".into()));
    };
    let mut figures: Option<(Rates, u64)> = None;
    let mut cards = Vec::new();
    for (device, info) in (0..).zip(devices) {
        // virtual devices of one card are alike
        if !cards.contains(&info.card) {
            cards.push(info.card);
            let new = Bench::new(&*gpus.driver, gpus, device)?.figures()?;
            figures = Some(figures.map_or(new, |old| (slower(&old.0, &new.0), old.1.min(new.1))));
        }
    }
    let (rates, memory_bandwidth) = figures.unwrap_or((Rates::map(&zero(), |_| 1), 1));
    // virtual devices of one card are alike
    let mut known: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut row = |from: u32| -> Result<Vec<Link>, GpuError> {
        let mut link = |to: u32| {
            let pair = (devices[from as usize].card, devices[to as usize].card);
            if to == from {
                return Ok(memory_bandwidth);
            }
            if let Some(&bandwidth) = known.get(&pair) {
                return Ok(bandwidth);
            }
            let bandwidth = between(gpus, from, to)?;
            known.insert(pair, bandwidth);
            Ok(bandwidth)
        };
        let links = (0..devices.len() as u32).map(&mut link);
        let link = |bandwidth: Result<u64, GpuError>| {
            bandwidth.map(|bandwidth| Link {
                latency: LATENCY,
                bandwidth,
            })
        };
        links.map(link).collect()
    };
    let matrix = (0..devices.len() as u32)
        .map(&mut row)
        .collect::<Result<Vec<_>, _>>()?;
    let rows = matrix.iter().enumerate();
    let links = rows.flat_map(|(from, row)| {
        let row = row.iter().enumerate();
        row.filter(move |(to, _)| *to != from)
            .map(|(_, link)| link.bandwidth)
    });
    let port = links.max().unwrap_or(memory_bandwidth);
    // Beside the buffers there are workspaces, and boxes on their way.
    let memory = devices.iter().map(|d| d.memory).min();
    let capacity = memory.unwrap_or(first.memory) / 16 * 15;
    Ok(Cluster {
        name: "gpus".into(),
        servers: 1,
        server: Server {
            devices: devices.len() as u32,
            device: Device {
                kind: DeviceKind::Gpu,
                capacity,
                rates,
                memory_bandwidth,
                port,
                overhead: LAUNCH,
            },
            links: Links::Matrix(matrix),
            cores: None,
            memory_bus: None,
        },
        // 100 Gb/s, which a single server has no use for
        network: Link {
            latency: LATENCY,
            bandwidth: 12_500_000_000,
        },
    })
}

fn zero() -> Rates {
    let rate = Rate {
        matmul: 0,
        skinny: 0,
        elementwise: 0,
    };
    Rates {
        f64: rate,
        f32: rate,
        bf16: rate,
        f16: rate,
        int: rate,
    }
}

fn slower(a: &Rates, b: &Rates) -> Rates {
    let min = |a: &Rate, b: &Rate| Rate {
        matmul: a.matmul.min(b.matmul),
        skinny: a.skinny.min(b.skinny),
        elementwise: a.elementwise.min(b.elementwise),
    };
    Rates {
        f64: min(&a.f64, &b.f64),
        f32: min(&a.f32, &b.f32),
        bf16: min(&a.bf16, &b.bf16),
        f16: min(&a.f16, &b.f16),
        int: min(&a.int, &b.int),
    }
}

/// A device with memory and a stream.
struct Bench<'a> {
    driver: &'a dyn Driver,
    stream: StreamId,
    memory: MemoryId,
    half: u64,
    _held: Held,
}

impl<'a> Bench<'a> {
    fn new(driver: &'a dyn Driver, gpus: &Gpus, device: u32) -> Result<Bench<'a>, GpuError> {
        let mut held = Held::new(gpus);
        let half = BYTES.min(driver.devices()[device as usize].memory / 16);
        // two operands, a result and a workspace
        let bytes = 3 * half + MATMUL_WORKSPACE.min(half);
        Ok(Bench {
            driver,
            stream: held.stream(device)?,
            memory: held.memory(Place::Device(device), bytes)?,
            half,
            _held: held,
        })
    }

    fn at(&self, offset: u64) -> Address {
        Address {
            memory: self.memory,
            offset,
        }
    }

    /// Units per second of work that is doubled until it takes long enough.
    fn rate(&self, work: impl Fn(u64) -> (Op, u64), sizes: (u64, u64)) -> Result<u64, GpuError> {
        rate(
            self.driver,
            &[self.stream],
            |n| {
                let (op, units) = work(n);
                (vec![op], units)
            },
            sizes,
        )
    }

    /// Rates, and bytes per second of its memory.
    fn figures(&self) -> Result<(Rates, u64), GpuError> {
        let start = self.at(0);
        let zeros = Op::Zero {
            dst: start,
            bytes: 2 * self.half,
        };
        run(self.driver, &[self.stream], vec![zeros])?;
        let copy = |bytes: u64| {
            let (src, dst) = (start, self.at(self.half));
            (Op::Copy { src, dst, bytes }, 2 * bytes)
        };
        let bandwidth = self.rate(copy, (1 << 12, self.half))?;
        let matmul = |dtype: DType, compute: Compute| {
            let fits = (self.half / dtype.size() as u64).isqrt().min(ROWS);
            self.rate(|n| self.product(n, dtype, compute), (32, fits.max(32)))
        };
        let (f64, f32) = (
            matmul(DType::F64, Compute::F64)?,
            matmul(DType::F32, Compute::F32)?,
        );
        let (bf16, f16) = (
            matmul(DType::BF16, Compute::F32)?,
            matmul(DType::F16, Compute::F32)?,
        );
        // Products of f32 are those of ordinary cores, which do everything else.
        let of = |matmul: u64| Rate {
            matmul,
            skinny: matmul.min(f32),
            elementwise: matmul.min(f32),
        };
        let rates = Rates {
            f64: of(f64),
            f32: of(f32),
            bf16: of(bf16),
            f16: of(f16),
            int: of(f32),
        };
        Ok((rates, bandwidth))
    }

    fn product(&self, n: u64, dtype: DType, compute: Compute) -> (Op, u64) {
        let matrix = Matrix {
            start: Pointer {
                place: Operand::Read(0),
                offset: 0,
                bytes: n * n * dtype.size() as u64,
            },
            dtype,
            transposed: false,
            leading: n as i64,
            stride: (n * n) as i64,
        };
        let gemm = Gemm {
            m: n as i64,
            n: n as i64,
            k: n as i64,
            batch: 1,
            a: matrix,
            b: matrix,
            c: matrix,
            compute,
        };
        let op = Op::Matmul {
            gemm: Box::new(gemm),
            operands: [self.at(0), self.at(self.half), self.at(2 * self.half)],
            workspace: self.at(3 * self.half),
        };
        (op, 2 * n * n * n)
    }
}

/// Bytes per second from one device to another, by way of the host where they have no link.
fn between(gpus: &Gpus, from: u32, to: u32) -> Result<u64, GpuError> {
    let driver = &*gpus.driver;
    let (a, b) = (
        &driver.devices()[from as usize],
        &driver.devices()[to as usize],
    );
    let most = BYTES.min(a.memory / 16).min(b.memory / 16);
    let mut held = Held::new(gpus);
    let streams = [held.stream(from)?, held.stream(to)?];
    let memory = |place, held: &mut Held| -> Result<Address, GpuError> {
        let memory = held.memory(place, most)?;
        Ok(Address { memory, offset: 0 })
    };
    let (src, dst) = (
        memory(Place::Device(from), &mut held)?,
        memory(Place::Device(to), &mut held)?,
    );
    let hop = match a.peers[to as usize] {
        true => None,
        false => Some(memory(Place::Host, &mut held)?),
    };
    let ops = |bytes| match hop {
        None => vec![Op::Copy { src, dst, bytes }],
        Some(hop) => vec![
            Op::Copy {
                src,
                dst: hop,
                bytes,
            },
            Op::Copy {
                src: hop,
                dst,
                bytes,
            },
        ],
    };
    rate(
        driver,
        &streams,
        |bytes| (ops(bytes), bytes),
        (1 << 12, most),
    )
}

/// The n-th operation is of the n-th stream; each is done before the next one begins.
fn run(driver: &dyn Driver, streams: &[StreamId], ops: Vec<Op>) -> Result<(), GpuError> {
    for (op, &stream) in ops.into_iter().zip(streams) {
        let touches = Vec::new();
        driver.submit(&[Command {
            stream,
            op,
            touches,
        }])?;
        driver.synchronise(stream)?;
    }
    Ok(())
}

fn rate(
    driver: &dyn Driver,
    streams: &[StreamId],
    work: impl Fn(u64) -> (Vec<Op>, u64),
    (least, most): (u64, u64),
) -> Result<u64, GpuError> {
    let mut n = least;
    loop {
        // the first time it is prepared
        run(driver, streams, work(n).0)?;
        let start = Instant::now();
        let (ops, units) = work(n);
        run(driver, streams, ops)?;
        let took = start.elapsed();
        if took >= ENOUGH || 2 * n > most {
            return Ok(((units as f64 / took.as_secs_f64().max(1e-9)) as u64).max(1));
        }
        n *= 2;
    }
}
