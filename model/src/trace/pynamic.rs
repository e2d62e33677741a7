//! Pynamic's start (Lee et al., IPDPS'07), generated: Python modules and utility libraries, with the loader's
//! search for each along the directories of its path.

use headwater_abi::Path;

use super::lookups::{Kind, Lookup, Trace};

/// Bytes that a loader maps of one library: 1.1 GB in 495 of them (SPINDLE, ICS'13, section 4.2).
const LIBRARY_BYTES: u64 = 2_300_000;
/// Seconds of relocating and running one library's start, at 80 s for 495 (the same).
const COMPUTING_NS: u64 = 150_000_000;
/// Directories that Python tries for a module before the right one, and names in each.
const SEARCHED: usize = 3;
const SUFFIXES: [&str; 3] = ["", "module.so", ".so"];

/// Generates `MODULES:UTILITIES`, with `:DIRECTORIES` that the loader searches for each library, and
/// `:MILLISECONDS` of computing for it.
pub(super) fn generate(text: &str) -> Option<Trace> {
    let numbers = text.split(':').map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
    let (&[modules, utilities], rest) = numbers.split_first_chunk()?;
    let directories = rest.first().copied().unwrap_or(2);
    let computing_ns = rest.get(1).map_or(COMPUTING_NS, |ms| ms * 1_000_000);
    if modules + utilities > 100_000 || directories > 1000 || rest.len() > 2 {
        return None;
    }
    let mut trace = Trace::default();
    for module in 0..modules {
        for directory in 0..SEARCHED {
            for suffix in SUFFIXES {
                push(&mut trace, Kind::Absent, &format!("/sw/python/path{directory}/module{module}{suffix}"), 0, 0);
            }
        }
        load(&mut trace, &format!("module{module}"), directories, computing_ns);
        // The utility libraries are dependencies of the modules, in turn.
        for utility in (module * utilities / modules)..((module + 1) * utilities / modules) {
            load(&mut trace, &format!("utility{utility}"), directories, computing_ns);
        }
    }
    Some(trace)
}

fn load(trace: &mut Trace, name: &str, directories: u64, computing_ns: u64) {
    for directory in 0..directories {
        push(trace, Kind::Absent, &format!("/sw/lib{directory}/lib{name}.so"), 0, 0);
    }
    push(trace, Kind::Load, &format!("/sw/pynamic/lib{name}.so"), LIBRARY_BYTES, computing_ns);
}

fn push(trace: &mut Trace, kind: Kind, path: &str, size: u64, before_ns: u64) {
    let path = Path::new(path.as_bytes()).expect("an absolute path");
    trace.lookups.push(Lookup { kind, path, size, before_ns });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_is_loaded_once() {
        let trace = generate("280:215").unwrap();
        assert_eq!(trace.files(), 495);
        assert_eq!(trace.lookups.iter().filter(|l| l.kind == Kind::Absent).count(), 280 * 9 + 495 * 2);
        let bytes: u64 = trace.lookups.iter().filter(|l| l.kind == Kind::Load).map(|l| l.size).sum();
        assert!((1_100_000_000..1_150_000_000).contains(&bytes), "1.1 GB: {bytes}");
        assert_eq!(generate("3:2:7:1").unwrap().lookups.len(), 3 * 9 + 5 * 8);
        for wrong in ["", "280", "280:", "a:b", "1:1:1:1:1", "9999999:1"] {
            assert_eq!(generate(wrong), None, "{wrong}");
        }
    }
}
