//! The C headers and the Rust modules agree: a C program prints every constant, size and offset of
//! `headwater/{table,client}.h`, and each must equal its counterpart here.
#![cfg(not(loom))]

use std::collections::BTreeMap;
use std::process::Command;

use headwater_abi::attr::ATTR_WORDS;
use headwater_abi::client::{
    COUNTER_SLOTS, COUNTER_WORDS, REPLY_BYTES, REPLY_MAGIC, REQUEST_BYTES, REQUEST_MAGIC, SILENCE_MS_MAX, Status, Want,
    counter,
};
use headwater_abi::path::PATH_BYTES_MAX;
use headwater_abi::table::{MAGIC, PROBES_MAX, State, VERSION, word};
use headwater_abi::{Kind, hash};

/// Returns C expressions and their values in Rust.
fn expected() -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let mut add = |name: &str, value: u64| assert!(all.insert(name.to_owned(), value).is_none(), "{name} twice");
    add("HW_TABLE_MAGIC", MAGIC);
    add("HW_TABLE_VERSION", VERSION);
    add("HW_PROBES_MAX", PROBES_MAX);
    add("HW_PATH_BYTES_MAX", PATH_BYTES_MAX as u64);
    // The multiplier shows in the hash of one zero byte: fold and finish of its length times it.
    add("hash_of_zero()", hash::bytes(&[0]));
    add("HW_REQUEST_MAGIC", REQUEST_MAGIC.into());
    add("HW_REPLY_MAGIC", REPLY_MAGIC.into());
    add("HW_SILENCE_MS_MAX", SILENCE_MS_MAX);
    add("HW_COUNTER_SLOTS", COUNTER_SLOTS as u64);
    add("sizeof(struct hw_counters)", COUNTER_WORDS as u64 * 8);
    add("sizeof(struct hw_request)", REQUEST_BYTES as u64);
    add("sizeof(struct hw_reply)", REPLY_BYTES as u64);
    add("sizeof(struct hw_header)", word::HEADER_WORDS as u64 * 8);
    add("sizeof(struct hw_attr)", ATTR_WORDS as u64 * 8);
    add("sizeof(struct hw_listing)", 8);
    add("sizeof(struct hw_listing_entry)", 16);
    for (name, value) in [("HW_PENDING", Status::Pending), ("HW_DONE", Status::Done), ("HW_FALLBACK", Status::Fallback)]
    {
        add(name, value as u64);
    }
    for (name, want) in Want::all().iter_names() {
        add(&format!("HW_WANT_{name}"), want.bits().into());
    }
    for (name, state) in State::all().iter_names() {
        add(&format!("HW_{name}"), state.bits());
    }
    for kind in (0..).map_while(Kind::from_number) {
        add(&format!("HW_{}", format!("{kind:?}").to_uppercase()), kind as u64);
    }
    let state = State::LISTED.word(Kind::Error, 0xabcd);
    add(&format!("HW_KIND(UINT64_C({state}))"), Kind::Error as u64);
    add(&format!("HW_ERRNO(UINT64_C({state}))"), 0xabcd);
    for (structure, fields) in fields() {
        for (field, offset) in fields {
            add(&format!("offsetof(struct {structure}, {field})"), offset);
        }
    }
    all
}

const COUNTERS: [(&str, usize); 5] = [
    ("lookups", counter::LOOKUPS),
    ("answered", counter::ANSWERED),
    ("requests", counter::REQUESTS),
    ("fallbacks", counter::FALLBACKS),
    ("processes", counter::PROCESSES),
];

/// Returns fields and their offsets in bytes.
fn fields() -> Vec<(&'static str, Vec<(&'static str, u64)>)> {
    let words = |fields: &[(&'static str, usize)]| fields.iter().map(|&(f, word)| (f, word as u64 * 8)).collect();
    vec![
        (
            "hw_header",
            words(&[
                ("magic", word::MAGIC),
                ("version", word::VERSION),
                ("total_bytes", word::TOTAL_BYTES),
                ("generation", word::GENERATION),
                ("slots_at", word::SLOTS_AT),
                ("slot_count", word::SLOT_COUNT),
                ("ino_slots_at", word::INO_SLOTS_AT),
                ("ino_slot_count", word::INO_SLOT_COUNT),
                ("heap_at", word::HEAP_AT),
                ("heap_used", word::HEAP_USED),
                ("scope_at", word::SCOPE_AT),
                ("scope_bytes", word::SCOPE_BYTES),
                ("store_at", word::STORE_AT),
                ("store_bytes", word::STORE_BYTES),
                ("socket_at", word::SOCKET_AT),
                ("socket_bytes", word::SOCKET_BYTES),
                ("counters_at", word::COUNTERS_AT),
                ("counters_bytes", word::COUNTERS_BYTES),
                ("store_dev", word::STORE_DEV),
                ("serving", word::SERVING),
                ("records", word::RECORDS),
                ("domains", word::DOMAINS),
                ("root_dev", word::ROOT_DEV),
                ("root_ino", word::ROOT_INO),
                ("root_mnt_id", word::ROOT_MNT_ID),
                ("mnt_ns", word::MNT_NS),
                ("user_ns", word::USER_NS),
                ("unaudited", word::UNAUDITED),
                ("stored_file_bytes_max", word::STORED_FILE_BYTES_MAX),
                ("mount_at", word::MOUNT_AT),
                ("mount_bytes", word::MOUNT_BYTES),
                ("mount_dev", word::MOUNT_DEV),
                ("unfollowed", word::UNFOLLOWED),
            ]),
        ),
        (
            "hw_record",
            words(&[
                ("state", word::RECORD_STATE),
                ("path_bytes", word::RECORD_PATH),
                ("aux_at", word::RECORD_AUX_AT),
                ("aux_bytes", word::RECORD_AUX_BYTES),
                ("attr", word::RECORD_ATTR),
                ("attr.store_ino", word::RECORD_STORE_INO),
                ("lookups", word::RECORD_LOOKUPS),
                ("passing", word::RECORD_PASSING),
                ("path", word::RECORD_NAME),
            ]),
        ),
        ("hw_counters", words(&COUNTERS)),
        ("hw_request", vec![("magic", 0), ("want", 4), ("generation", 8), ("path_bytes", 16), ("reserved", 20)]),
        ("hw_reply", vec![("magic", 0), ("status", 4), ("reserved", 8)]),
        ("hw_listing", vec![("count", 0), ("index_slots", 4), ("index", 8)]),
        ("hw_listing_entry", vec![("ino", 0), ("name_at", 8), ("name_bytes", 12), ("d_type", 14), ("zero", 15)]),
    ]
}

/// Compiles and runs `program`. Returns its output.
fn run_c(program: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let (source, binary) = (directory.path().join("mirror.c"), directory.path().join("mirror"));
    std::fs::write(&source, program).unwrap();
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", concat!(env!("CARGO_MANIFEST_DIR"), "/include"), "-o"])
        .args([&binary, &source])
        .output()
        .expect("a C compiler is installed as `cc`");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    String::from_utf8(Command::new(&binary).output().unwrap().stdout).unwrap()
}

const PREAMBLE: &str = r#"
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "headwater/client.h"
#include "headwater/table.h"
#define SHOW(expression) printf("%s=%" PRIu64 "\n", #expression, (uint64_t)(expression))
static uint64_t hash_of_zero(void)
{
	uint64_t hash = HW_HASH_MULTIPLIER * HW_HASH_MULTIPLIER;
	hash ^= hash >> 32;
	hash = (hash ^ (hash >> 47)) * HW_HASH_MULTIPLIER;
	return hash ^ (hash >> 32);
}
"#;

#[test]
fn headers_and_modules_agree() {
    let expected = expected();
    let shows: String = expected.keys().map(|expression| show(expression)).collect();
    let output = run_c(&format!("{PREAMBLE}int main(void)\n{{\n{shows}\treturn 0;\n}}\n"));
    let is: BTreeMap<&str, u64> =
        output.lines().map(|line| line.rsplit_once('=').unwrap()).map(|(e, v)| (e, v.parse().unwrap())).collect();
    assert_eq!(is.len(), expected.len());
    for (expression, value) in &expected {
        assert_eq!(is.get(expression.as_str()), Some(value), "{expression}");
    }
}

fn show(expression: &str) -> String {
    format!("\tprintf(\"%s=%\" PRIu64 \"\\n\", \"{expression}\", (uint64_t)({expression}));\n")
}

/// Each word of an attribute is the one that C sees under the field's name.
#[test]
fn attributes_agree() {
    let names = [
        "mode",
        "nlink",
        "uid",
        "gid",
        "ino",
        "dev_major",
        "dev_minor",
        "rdev_major",
        "rdev_minor",
        "size",
        "blocks",
        "blksize",
        "mask",
        "attributes",
        "attributes_mask",
        "atime_s",
        "mtime_s",
        "ctime_s",
        "btime_s",
        "atime_ns",
        "mtime_ns",
        "ctime_ns",
        "btime_ns",
        "mnt_id",
    ];
    let attr = headwater_abi::Attr {
        mode: 1,
        nlink: 2,
        uid: 3,
        gid: 4,
        ino: 5,
        dev_major: 6,
        dev_minor: 7,
        rdev_major: 8,
        rdev_minor: 9,
        size: 10,
        blocks: 11,
        blksize: 12,
        mask: 13,
        attributes: 14,
        attributes_mask: 15,
        atime: (16, 20),
        mtime: (17, 21),
        ctime: (18, 22),
        btime: (19, 23),
        mnt_id: 24,
    };
    let words: Vec<String> = attr.to_words().iter().map(|word| format!("UINT64_C({word})")).collect();
    let shows: String = names.iter().map(|name| format!("\tSHOW(attr.{name});\n")).collect();
    let output = run_c(&format!(
        "{PREAMBLE}int main(void)\n{{\n\t(void)hash_of_zero;\n\tconst uint64_t words[] = {{ {} }};\n\tstruct hw_attr attr;\n\
         \tmemcpy(&attr, words, sizeof attr);\n{shows}\treturn 0;\n}}\n",
        words.join(", ")
    ));
    let is: Vec<String> = output.lines().map(str::to_owned).collect();
    let should: Vec<String> = names.iter().zip(1..).map(|(name, n)| format!("attr.{name}={n}")).collect();
    assert_eq!(is, should);
}
