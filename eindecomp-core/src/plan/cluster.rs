//! Clusters: devices and links as the planner sees them.

/// Devices that plans are made for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Cluster {
    /// Number of devices (memory domains), at least 1.
    devices: u32,
    /// Memory of each device in bytes.
    capacity: u64,
}

/// Capacity of a CPU device unless set: constant, so that plan keys do not depend on the machine.
pub const DEFAULT_CAPACITY: u64 = 64 << 30;

impl Cluster {
    /// `devices` memory domains on the cores of this machine, at least 1.
    pub fn cpus(devices: u32) -> Cluster {
        Cluster {
            devices: devices.max(1),
            capacity: DEFAULT_CAPACITY,
        }
    }

    /// The same with another capacity, in bytes per device.
    pub fn with_capacity(self, capacity: u64) -> Cluster {
        Cluster { capacity, ..self }
    }

    /// Number of devices.
    pub fn devices(&self) -> u32 {
        self.devices
    }

    /// Bytes per device.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }
}
