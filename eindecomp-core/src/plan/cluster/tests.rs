use super::*;

fn presets() -> [Cluster; 6] {
    [
        Cluster::cpus(2),
        Cluster::dgx_a100(),
        Cluster::dgx_h100(),
        Cluster::dgx1_v100(),
        Cluster::dgx_a100().with_servers(4),
        Cluster::dgx1_v100().with_servers(2),
    ]
}

#[test]
fn ready_made_clusters_keep_the_rules_and_read_back() {
    for cluster in presets() {
        assert_eq!(cluster.verify(), Ok(()));
        assert_eq!(cluster.rounded().verify(), Ok(()));
        let text = serde_json::to_string(&cluster).unwrap();
        assert_eq!(serde_json::from_str::<Cluster>(&text).unwrap(), cluster);
    }
}

#[test]
fn clusters_are_told_in_three_lines() {
    let all = presets().map(|c| c.to_string()).join("\n");
    insta::assert_snapshot!(all, @"
    cpus: 2 CPU devices on 2 cores
      68.7 GB, 20.0 GB/s; matmul f32 80.0 Gop/s, bf16 40.0 Gop/s; 2 µs per task, all together 20.0 GB/s
      5.00 GB/s after 1 µs within a server
    dgx_a100: 8 GPU devices
      80.0 GB, 2.04 TB/s; matmul f32 19.5 Top/s, bf16 312 Top/s; 5 µs per task
      300 GB/s after 2 µs within a server
    dgx_h100: 8 GPU devices
      80.0 GB, 3.35 TB/s; matmul f32 67.0 Top/s, bf16 989 Top/s; 5 µs per task
      450 GB/s after 2 µs within a server
    dgx1_v100: 8 GPU devices
      32.0 GB, 900 GB/s; matmul f32 15.7 Top/s, bf16 15.7 Top/s; 5 µs per task
      15.8 GB/s or 25.0 GB/s or 50.0 GB/s by pair within a server
    dgx_a100: 4 servers of 8 GPU devices
      80.0 GB, 2.04 TB/s; matmul f32 19.5 Top/s, bf16 312 Top/s; 5 µs per task
      300 GB/s after 2 µs within a server; 200 GB/s after 5 µs between, where a byte counts 12
    dgx1_v100: 2 servers of 8 GPU devices
      32.0 GB, 900 GB/s; matmul f32 15.7 Top/s, bf16 15.7 Top/s; 5 µs per task
      15.8 GB/s or 25.0 GB/s or 50.0 GB/s by pair within a server; 50.0 GB/s after 5 µs between, where a byte counts 24
    ");
}

#[test]
fn the_cube_mesh_has_six_links_per_device_both_ways() {
    let cluster = Cluster::dgx1_v100();
    let nvlinks = |from, to| match cluster.server.links.between(from, to).bandwidth {
        15_750_000_000 => 0,
        speed => speed / 25_000_000_000,
    };
    for a in 0..8 {
        let all: u64 = (0..8).filter(|&b| b != a).map(|b| nvlinks(a, b)).sum();
        assert_eq!(all, 6);
        assert!((0..8).all(|b| nvlinks(a, b) == nvlinks(b, a)));
    }
}

#[test]
fn bytes_are_weighed_by_what_a_device_sends_when_all_do() {
    let weight = |c: Cluster, servers| c.with_servers(servers).hierarchy().weight;
    // 300 GB/s against 25, 450 against 50, 150 against 6.25
    assert_eq!(weight(Cluster::dgx_a100(), 2), 12);
    assert_eq!(weight(Cluster::dgx_h100(), 4), 9);
    assert_eq!(weight(Cluster::dgx1_v100(), 2), 24);
    assert_eq!(weight(Cluster::dgx_a100(), 1), 1);
    assert_eq!(Cluster::cpus(6).hierarchy(), Hierarchy::flat(6));
}

#[test]
fn more_devices_than_there_can_be_are_refused() {
    for devices in [MAX_DEVICES + 1, u32::MAX] {
        let error = Cluster::cpus(devices).verify().unwrap_err();
        let text = format!("1 servers of {devices} devices are not 1 to {MAX_DEVICES} devices");
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn pairs_cross_links() {
    let two = Cluster::dgx_a100().with_servers(2).hierarchy();
    assert_eq!(two.devices(), 16);
    let classes = [(3, 3), (0, 7), (7, 8), (15, 0)].map(|(a, b)| two.class(a, b));
    use LinkClass::{Device, Network, Server};
    assert_eq!(classes, [Device, Server, Network, Network]);
}

#[test]
fn figures_are_rounded_to_two_digits() {
    let cases = [
        (0, 0),
        (7, 7),
        (99, 99),
        (104, 100),
        (105, 110),
        (999, 1000),
    ];
    for (n, rounded) in cases {
        assert_eq!(two_digits(n), rounded);
    }
    assert_eq!(two_digits(MAX_RATE), MAX_RATE);
    assert_eq!(two_digits(2_039_000_000_000), 2_000_000_000_000);
}

#[test]
fn impossible_clusters_are_refused() {
    let refused = |change: &dyn Fn(&mut Cluster)| {
        let mut cluster = Cluster::dgx1_v100();
        change(&mut cluster);
        cluster.verify().unwrap_err().to_string()
    };
    assert_eq!(
        refused(&|c| c.servers = 0),
        "0 servers of 8 devices are not 1 to 32768 devices"
    );
    assert_eq!(
        refused(&|c| c.server.devices = 0),
        "1 servers of 0 devices are not 1 to 32768 devices"
    );
    let many = "4294967295 servers of 8 devices are not 1 to 32768 devices";
    assert_eq!(refused(&|c| c.servers = u32::MAX), many);
    assert_eq!(
        refused(&|c| c.server.device.capacity = 0),
        "a device has a capacity of 0 bytes"
    );
    assert_eq!(
        refused(&|c| c.server.cores = Some(0)),
        "a server's devices share 0 cores"
    );
    assert_eq!(
        refused(&|c| c.server.device.rates.bf16.skinny = 0),
        "the skinny rate of bf16 is 0 per second, not 1 to 1000000000000000000"
    );
    assert_eq!(
        refused(&|c| c.server.memory_bus = Some(u64::MAX)),
        "the bandwidth of the memory bus is 18446744073709551615 per second, not 1 to \
         1000000000000000000"
    );
    assert_eq!(
        refused(&|c| c.network.latency = u64::MAX),
        "the latency of the network is 18446744073709551615 ns, more than 1000000000"
    );
    let entry = |row: usize, column: usize, bandwidth| {
        move |c: &mut Cluster| {
            let Links::Matrix(rows) = &mut c.server.links else {
                unreachable!()
            };
            rows[row][column].bandwidth = bandwidth;
        }
    };
    assert_eq!(
        refused(&entry(2, 5, 0)),
        "the bandwidth of the link from device 2 to 5 is 0 per second, not 1 to 1000000000000000000"
    );
    assert_eq!(
        refused(&|c| c.server.devices = 7),
        "row 8 of the matrix of links has 0 entries; a server has 7 devices"
    );
    let ragged = refused(&|c| match &mut c.server.links {
        Links::Matrix(rows) => drop(rows[3].pop()),
        Links::Switch(_) => unreachable!(),
    });
    assert_eq!(
        ragged,
        "row 3 of the matrix of links has 7 entries; a server has 8 devices"
    );
    // what a device has to itself is not read
    let mut cluster = Cluster::dgx1_v100();
    entry(4, 4, 0)(&mut cluster);
    assert_eq!(cluster.verify(), Ok(()));
}

#[test]
fn files_that_are_no_clusters_are_refused() {
    let text = serde_json::to_string(&Cluster::dgx_a100()).unwrap();
    for (from, to) in [
        ("\"bandwidth\":300000000000", "\"bandwidth\":NaN"),
        ("\"bandwidth\":300000000000", "\"bandwidth\":-1"),
        ("\"bandwidth\":300000000000", "\"bandwidth\":3e400"),
        ("\"servers\":1", "\"servers\":18446744073709551616"),
        ("\"servers\":1", "\"serves\":1"),
    ] {
        let other = text.replacen(from, to, 1);
        assert_ne!(other, text);
        assert!(serde_json::from_str::<Cluster>(&other).is_err(), "{to}");
    }
}

#[test]
fn figures_that_waver_are_not_another_machine() {
    let before = Calibration::nominal(2);
    assert_eq!(before.verify(), Ok(()));
    let after = |percent: u64| {
        let mut after = before.clone();
        after.rates.f32.matmul = before.rates.f32.matmul * percent / 100;
        after.differs(&before)
    };
    assert!(!after(115) && !after(85) && !after(100));
    assert!(after(116) && after(84));
    assert!(Calibration::nominal(3).differs(&before));
    let mut zero = before.clone();
    zero.transport.latency = 0;
    assert!(zero.differs(&before) && before.differs(&zero));
    zero.transport.bandwidth = 0;
    assert!(matches!(zero.verify(), Err(ClusterError::Rate { .. })));
}
