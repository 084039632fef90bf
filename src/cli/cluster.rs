//! Clusters by name or file.

use eindecomp_core::plan::Cluster;

use super::failure::Failure;
use crate::machine;

/// `cpus:4`, `machine:4`, `dgx_a100`, `2xdgx_h100`, or a JSON file.
///
/// # Errors
/// A name that is none, a file that is no cluster, a cluster that breaks a rule, figures of this machine
/// that cannot be read.
pub fn named(text: &str) -> Result<Cluster, Failure> {
    let usage = Failure::Usage;
    let (servers, name) = match text.split_once('x').map(|(n, rest)| (n.parse(), rest)) {
        Some((Ok(servers), rest)) => (Some(servers), rest),
        _ => (None, text),
    };
    let one = match name.split_once(':') {
        Some((kind @ ("cpus" | "machine"), n)) => {
            let devices = n.parse().ok().filter(|&n| n > 0);
            let devices =
                devices.ok_or_else(|| usage(format!("`{text}`: `{n}` is no number of devices")))?;
            match kind {
                "cpus" => Cluster::cpus(devices),
                _ => machine::cluster(machine::default_folder().as_deref(), devices)
                    .map_err(|e| format!("`{text}`: {e}"))?,
            }
        }
        _ => match name {
            "dgx_a100" => Cluster::dgx_a100(),
            "dgx_h100" => Cluster::dgx_h100(),
            "dgx1_v100" => Cluster::dgx1_v100(),
            file if file.ends_with(".json") => read(file)?,
            _ => {
                return Err(usage(format!(
                    "there is no cluster `{text}`: write cpus:4, machine:4, dgx_a100, dgx_h100, \
                     dgx1_v100, 2x… for two of them, or a file that ends in .json"
                )));
            }
        },
    };
    let cluster = match servers {
        Some(servers) => one.with_servers(servers),
        None => one,
    };
    let broken = |e| usage(format!("`{text}`: {e}"));
    cluster.verify().map_err(broken)?;
    Ok(cluster)
}

fn read(file: &str) -> Result<Cluster, Failure> {
    let text = std::fs::read_to_string(file).map_err(|e| Failure::Usage(format!("{file}: {e}")))?;
    serde_json::from_str(&text).map_err(|e| Failure::Usage(format!("{file}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_clusters() {
        let devices = |text| named(text).map(|c| c.devices());
        assert_eq!(devices("cpus:4"), Ok(4));
        assert_eq!(devices("machine:3"), Ok(3));
        assert_eq!(devices("dgx_a100"), Ok(8));
        assert_eq!(devices("2xdgx_h100"), Ok(16));
        for slip in [
            "cpus",
            "cpus:0",
            "cpus:x",
            "machine:0",
            "0xdgx_a100",
            "dgx",
            "none.json",
            "",
        ] {
            assert!(devices(slip).is_err(), "{slip}");
        }
    }
}
