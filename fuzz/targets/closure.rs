//! Recorded closures and seals: any file is refused, or has the same meaning when it is written again.

#![no_main]

use headwater_closure::recorded::{parse, parse_record, write, write_record};
use headwater_closure::sealed::Seal;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(entries) = parse(bytes) {
        assert_eq!(parse(write(entries.iter()).as_bytes()), Ok(entries));
    }
    if let Ok(record) = parse_record(bytes) {
        assert_eq!(parse_record(write_record(&record).as_bytes()), Ok(record));
    }
    if let Ok(signed) = Seal::parse(bytes) {
        let text = signed.seal.text() + &signed.signature.line();
        let again = Seal::parse(text.as_bytes()).expect("it was written");
        assert_eq!((again.seal, again.signature), (signed.seal, signed.signature));
    }
});
