//! The cost model's parameters of a machine, and their file.

use serde::{Deserialize, Serialize};

use super::curve::Curve;
use crate::ParameterError;

/// Costs on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// *h*, the size of a hint: the file's name and a position in it.
    pub hint_bytes: f64,
    /// *P(m)*: one change of the protection of so many touched bytes.
    pub protection: Curve,
    /// *C(x)*: a copy within memory; a message within a node costs the same.
    pub copy: Curve,
    /// *T_Comm(x)*: a message from node to node.
    pub message: Curve,
    /// *T_I/O* of reading.
    pub read: Storage,
    /// *T_I/O* of writing.
    pub write: Storage,
}

/// *T_I/O*.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// One process that reads or writes so many bytes: *T_I/O(m, 1)*.
    pub single: Curve,
    /// *i*: the most that all nodes together reach, in multiples of that rate.
    pub speedup_max: f64,
    /// The most that the processes of one node together reach, in multiples of that rate.
    pub node_speedup_max: f64,
    /// Seconds that beginning a collective operation adds for each rank.
    pub collective_s: f64,
}

const MB: f64 = 1024.0 * 1024.0;

impl Default for Parameters {
    /// Returns the costs of a node of two cores with 4 KiB pages, a link of 1 Gbit/s, and a server with four
    /// times that.
    fn default() -> Parameters {
        let protection =
            [(0.004, 0.6e-6), (0.064, 1.2e-6), (1.0, 9e-6), (16.0, 149e-6), (256.0, 3.97e-3), (1024.0, 19.3e-3)];
        let copy = [(0.004, 0.4e-6), (1.0, 80e-6), (16.0, 1.28e-3), (256.0, 24.3e-3), (1024.0, 0.1)];
        let points = |points: &[(f64, f64)]| Curve(points.iter().map(|&(mb, seconds)| (mb * MB, seconds)).collect());
        let mut parameters = Parameters {
            hint_bytes: 256.0,
            protection: points(&protection),
            copy: points(&copy),
            message: Curve::of_rate(LATENCY_S, 1.0),
            read: Storage::new(Curve::of_rate(LATENCY_S, 1.0), 1.0),
            write: Storage::new(Curve::of_rate(LATENCY_S, 1.0), 1.0),
        };
        parameters.set_link(1e9 / 8.0);
        parameters.set_server(1e9 / 8.0, 4e9 / 8.0);
        parameters
    }
}

/// Of a message, and of an operation on a file.
const LATENCY_S: f64 = 50e-6;

impl Storage {
    /// Makes storage with one process's curve; a node's processes together are no quicker.
    pub fn new(single: Curve, speedup_max: f64) -> Storage {
        Storage { single, speedup_max, node_speedup_max: 1.0, collective_s: LATENCY_S }
    }

    /// Returns the seconds for so many bytes in all, by so many processes on each of so many nodes, each a
    /// part of the same size: *T_I/O(m/p, p)*, as the paper approximates it.
    pub fn seconds(&self, bytes: f64, nodes: f64, on_each: f64) -> f64 {
        let speedup = self.speedup_max.min(nodes * self.node_speedup_max.min(on_each)).max(1.0);
        self.single.seconds(bytes) / speedup
    }
}

impl Parameters {
    /// Sets the rate of links between nodes.
    pub fn set_link(&mut self, bytes_per_s: f64) {
        self.message = Curve::of_rate(LATENCY_S, bytes_per_s);
    }

    /// Sets a file server's rate, of which one node gets at most its link's.
    pub fn set_server(&mut self, link_bytes_per_s: f64, server_bytes_per_s: f64) {
        let one = link_bytes_per_s.min(server_bytes_per_s);
        let storage = Storage::new(Curve::of_rate(LATENCY_S, one), server_bytes_per_s / one);
        (self.read, self.write) = (storage.clone(), storage);
    }

    /// Sets a file server's total rate; one node's rate is known.
    pub fn bound_server(&mut self, server_bytes_per_s: f64) {
        for storage in [&mut self.read, &mut self.write] {
            let points = storage.single.points();
            let (bytes, seconds) = points[points.len() - 1];
            storage.speedup_max = (server_bytes_per_s * seconds / bytes).max(storage.node_speedup_max);
        }
    }

    /// Reads a TOML file; what it leaves out has its default.
    ///
    /// # Errors
    /// It is no such file, or a number makes no sense.
    pub fn parse(text: &str) -> Result<Parameters, ParameterError> {
        let parameters: Parameters = toml::from_str(text).map_err(|error| ParameterError::Toml(error.to_string()))?;
        let Parameters { protection, copy, message, read, write, .. } = &parameters;
        for (name, curve) in [
            ("protection", protection),
            ("copy", copy),
            ("message", message),
            ("read.single", &read.single),
            ("write.single", &write.single),
        ] {
            Curve::new(curve.points().to_vec()).map_err(|error| ParameterError::Toml(format!("{name}: {error}")))?;
        }
        let at_least = |name, value: f64, least: f64| {
            let next = if least == 0.0 { "at least 0" } else { "at least 1" };
            (value.is_finite() && value >= least).then_some(()).ok_or(ParameterError::Range { name, value, next })
        };
        at_least("hint_bytes", parameters.hint_bytes, 1.0)?;
        for storage in [read, write] {
            at_least("speedup_max", storage.speedup_max, 1.0)?;
            at_least("node_speedup_max", storage.node_speedup_max, 1.0)?;
            at_least("collective_s", storage.collective_s, 0.0)?;
        }
        Ok(parameters)
    }

    /// Returns the same as a file.
    pub fn write(&self) -> String {
        let Parameters { hint_bytes, protection, copy, message, read, write } = self;
        let storage = |Storage { single, speedup_max, node_speedup_max, collective_s }: &Storage| {
            format!(
                "single = {single}\nspeedup_max = {speedup_max}\nnode_speedup_max = {node_speedup_max}\n\
                 collective_s = {collective_s:e}\n"
            )
        };
        format!(
            "# Points are [bytes, seconds]. Written by `headwater io predict --save`.\nhint_bytes = {hint_bytes}\n\
             protection = {protection}\ncopy = {copy}\nmessage = {message}\n\n[read]\n{}\n[write]\n{}",
            storage(read),
            storage(write)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let mut parameters = Parameters::default();
        parameters.set_server(2.5e7, 1e8);
        assert_eq!(Parameters::parse(&parameters.write()).unwrap(), parameters);
        assert_eq!(parameters.read.speedup_max, 4.0);
        let partial = Parameters::parse("copy = [[4096, 1e-6], [1048576, 1e-4]]").unwrap();
        assert_eq!((partial.copy.seconds(1048576.0), &partial.message), (1e-4, &Parameters::default().message));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |text: &str, part: &str| {
            let error = Parameters::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        check("copy = []", "copy: write points");
        check("copi = [[1, 1]]", "copi");
        check("hint_bytes = 0", "hint_bytes is 0");
        check("[read]\nsingle = [[1, 1]]\nspeedup_max = 0.5\nnode_speedup_max = 1\ncollective_s = 0", "speedup_max");
    }
}
