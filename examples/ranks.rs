//! Products of matrices on the ranks of an MPI job: time, and bytes that each rank received.
//!
//! ```sh
//! cargo build --release --features mpi --example ranks
//! mpirun -n 2 target/release/examples/ranks 2048 9
//! ```
//!
//! Arguments: rows and columns of each matrix, and how often it is run.

use std::time::Instant;

use eindecomp::ndarray::Array2;
use eindecomp::{Cluster, Launched, Session, ein};

ein! {
    /// a·b
    pub fn product<dim N>(a: f32[N, N], b: f32[N, N]) -> f32[N, N] {
        let c[i, k] = sum[j] a[i, j] * b[j, k];
        c
    }

    /// (a·b) + (c·(d·e))
    pub fn chain<dim N>(
        a: f32[N, N], b: f32[N, N], c: f32[N, N], d: f32[N, N], e: f32[N, N]
    ) -> f32[N, N] {
        let ab[i, k] = sum[j] a[i, j] * b[j, k];
        let de[i, k] = sum[j] d[i, j] * e[j, k];
        let cde[i, k] = sum[j] c[i, j] * de[j, k];
        let y[i, k] = ab[i, k] + cde[i, k];
        y
    }
}

fn main() -> Result<(), eindecomp::Error> {
    let mut numbers = std::env::args().skip(1).filter_map(|a| a.parse().ok());
    let (n, times) = (numbers.next().unwrap_or(512), numbers.next().unwrap_or(5));
    let job = Cluster::mpi()?;
    let (rank, ranks) = (job.rank(), job.ranks());
    let results = eindecomp::Results::Distributed;
    let session = Session::builder()
        .cluster(job)
        .results(results)
        .no_cache()
        .build()?;
    let matrix = |seed: usize| {
        Array2::from_shape_fn((n, n), |(r, c)| {
            ((r * 31 + c * 17 + seed) % 13) as f32 - 6.0
        })
    };
    let (a, b, c, d, e) = (matrix(1), matrix(2), matrix(3), matrix(4), matrix(5));
    let say = |what: &str, mut ms: Vec<f64>, received: u64| {
        ms.sort_by(f64::total_cmp);
        let (median, least) = (ms[ms.len() / 2], ms[0]);
        println!(
            "{what} {n} on {ranks} ranks: {median:.1} ms, least {least:.1}; rank {rank} received {received} B"
        );
    };
    let mut model = session.compile(product::graph(), product::Dims { n })?;
    let mut ms = Vec::new();
    for _ in 0..times {
        let (a, b) = (a.clone(), b.clone());
        let start = Instant::now();
        model.run(product::Inputs { a, b })?;
        ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    say("product", ms, model.trace().traffic.moved().total());
    let mut model = session.compile(chain::graph(), chain::Dims { n })?;
    let mut ms = Vec::new();
    for _ in 0..times {
        let inputs = chain::Inputs {
            a: a.clone(),
            b: b.clone(),
            c: c.clone(),
            d: d.clone(),
            e: e.clone(),
        };
        let start = Instant::now();
        model.run(inputs)?;
        ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    say("chain", ms, model.trace().traffic.moved().total());
    Ok(())
}
