use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;
use crate::wire::FileLock;

/// Returns a request's bytes: the header, then these.
fn request(opcode: u32, parts: &[&[u8]]) -> Vec<u8> {
    let arguments = parts.concat();
    let len = (size_of::<InHeader>() + arguments.len()) as u32;
    let header = InHeader { len, opcode, unique: 42, nodeid: 7, uid: 1000, gid: 100, pid: 9, ..InHeader::default() };
    [header.as_bytes(), &arguments].concat()
}

#[track_caller]
fn check(opcode: u32, parts: &[&[u8]], expected: Operation) {
    let bytes = request(opcode, parts);
    let decoded = Request::decode(&bytes).expect("it is a request");
    let whole = Request { unique: 42, node: NodeId(7), uid: 1000, gid: 100, pid: 9, operation: expected };
    assert_eq!(decoded, whole);
    // Not a byte less, not a byte more.
    let error = DecodeError { opcode, unique: 42 };
    for longer in [false, true] {
        let mut bytes = bytes.clone();
        bytes.resize(if longer { bytes.len() + 1 } else { bytes.len() - 1 }, b'x');
        assert!(Request::decode(&bytes).is_err(), "the length is wrong");
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        if len as usize >= size_of::<InHeader>() {
            assert_eq!(Request::decode(&bytes), Err(error), "{} bytes", len);
        }
    }
}

#[test]
fn bytes_of_this_machine_are_decoded() {
    // LOOKUP of "lib" in node 7, as a little-endian kernel sends it.
    if cfg!(target_endian = "little") {
        let bytes = b"\x2c\0\0\0\x01\0\0\0\x0a\0\0\0\0\0\0\x80\x07\0\0\0\0\0\0\0\xe8\x03\0\0\x64\0\0\0\x39\x30\0\0\0\0\0\0lib\0";
        let decoded = Request::decode(bytes).expect("it is a request");
        let operation = Operation::Lookup { name: b"lib" };
        let expected = Request { unique: 1 << 63 | 10, node: NodeId(7), uid: 1000, gid: 100, pid: 12345, operation };
        assert_eq!(decoded, expected);
        assert!(decoded.is_resent());
    }
}

#[test]
fn operations_about_names() {
    let name: &[u8] = b"\xff name";
    check(opcode::LOOKUP, &[b"\xff name\0"], Operation::Lookup { name });
    check(opcode::UNLINK, &[b"\xff name\0"], Operation::Unlink { name });
    check(opcode::RMDIR, &[b"\xff name\0"], Operation::Rmdir { name });
    check(opcode::LINK, &[&5u64.to_ne_bytes(), b"\xff name\0"], Operation::Link { existing: NodeId(5), name });
    let rename = Operation::Rename { name: b"a", to: NodeId(8), to_name: b"b", flags: 0 };
    check(opcode::RENAME, &[&8u64.to_ne_bytes(), b"a\0b\0"], rename);
    let rename2 = Rename2In { newdir: 8, flags: 2, padding: 0 };
    let rename = Operation::Rename { name: b"a", to: NodeId(8), to_name: b"b", flags: 2 };
    check(opcode::RENAME2, &[rename2.as_bytes(), b"a\0b\0"], rename);
    let create = CreateIn { flags: 0o101, mode: 0o644, umask: 0o22, open_flags: 0 };
    let expected = Operation::Create { flags: 0o101, mode: 0o644, umask: 0o22, name };
    check(opcode::CREATE, &[create.as_bytes(), b"\xff name\0"], expected);
    let mknod = MknodIn { mode: 0o10_644, rdev: 3, umask: 0o22, padding: 0 };
    let expected = Operation::Mknod { mode: 0o10_644, rdev: 3, umask: 0o22, name };
    check(opcode::MKNOD, &[mknod.as_bytes(), b"\xff name\0"], expected);
    let mkdir = MkdirIn { mode: 0o755, umask: 0o22 };
    check(opcode::MKDIR, &[mkdir.as_bytes(), b"d\0"], Operation::Mkdir { mode: 0o755, umask: 0o22, name: b"d" });
    check(opcode::SYMLINK, &[b"l\0../t\0"], Operation::Symlink { name: b"l", target: b"../t" });
}

#[test]
fn operations_about_attributes() {
    let getattr = |flags| GetattrIn { getattr_flags: flags, dummy: 0, fh: 3 };
    check(opcode::GETATTR, &[getattr(0).as_bytes()], Operation::Getattr);
    check(opcode::GETATTR, &[getattr(1).as_bytes()], Operation::Getattr);
    let statx = StatxIn { getattr_flags: 0, sx_mask: 0xfff, ..StatxIn::default() };
    check(opcode::STATX, &[statx.as_bytes()], Operation::Statx);
    let number = Number { value: 4, padding: 0 };
    check(opcode::ACCESS, &[number.as_bytes()], Operation::Access);
    let setattr = SetattrIn {
        valid: fattr::MODE | fattr::SIZE | fattr::ATIME | fattr::MTIME | fattr::MTIME_NOW,
        size: 1 << 40,
        atime: -5i64 as u64,
        atimensec: 6,
        mode: 0o600,
        uid: 1,
        ..SetattrIn::default()
    };
    let expected = Setattr {
        mode: Some(0o600),
        size: Some(1 << 40),
        atime: Some(SetTime::At(-5, 6)),
        mtime: Some(SetTime::Now),
        ..Setattr::default()
    };
    check(opcode::SETATTR, &[setattr.as_bytes()], Operation::Setattr(expected));
    let owner = SetattrIn { valid: fattr::UID | fattr::GID, uid: 1, gid: 2, fh: 3, ..SetattrIn::default() };
    let expected = Setattr { uid: Some(1), gid: Some(2), ..Setattr::default() };
    check(opcode::SETATTR, &[owner.as_bytes()], Operation::Setattr(expected));
    check(opcode::GETXATTR, &[number.as_bytes(), b"user.a/b\0"], Operation::Getxattr { name: b"user.a/b", bytes: 4 });
    check(opcode::LISTXATTR, &[number.as_bytes()], Operation::Listxattr { bytes: 4 });
    check(opcode::REMOVEXATTR, &[b"user.x\0"], Operation::Removexattr { name: b"user.x" });
    let setxattr = SetxattrIn { size: 3, flags: 1 };
    let expected = Operation::Setxattr { name: b"user.x", value: b"\0y\0", flags: 1 };
    check(opcode::SETXATTR, &[setxattr.as_bytes(), b"user.x\0\0y\0"], expected);
}

#[test]
fn operations_on_files_and_directories() {
    let transfer =
        |transfer_flags| TransferIn { fh: 1, offset: 2, size: 4, transfer_flags, flags: 5, ..TransferIn::default() };
    check(opcode::READ, &[transfer(0).as_bytes()], Operation::Read { offset: 2, bytes: 4 });
    check(opcode::READDIR, &[transfer(0).as_bytes()], Operation::Readdir { offset: 2, bytes: 4, plus: false });
    check(opcode::READDIRPLUS, &[transfer(0).as_bytes()], Operation::Readdir { offset: 2, bytes: 4, plus: true });
    for (write_flags, is_from_cache) in [(0, false), (1, true), (2, false)] {
        let expected = Operation::Write { offset: 2, flags: 5, is_from_cache, data: b"data" };
        check(opcode::WRITE, &[transfer(write_flags).as_bytes(), b"data"], expected);
    }
    let open = OpenIn { flags: 0o2, open_flags: 0 };
    check(opcode::OPEN, &[open.as_bytes()], Operation::Open { flags: 2 });
    check(opcode::OPENDIR, &[open.as_bytes()], Operation::Opendir);
    let flush = FlushIn { fh: 3, ..FlushIn::default() };
    check(opcode::FLUSH, &[flush.as_bytes()], Operation::Flush);
    let release = ReleaseIn { fh: 3, flags: 4, ..ReleaseIn::default() };
    check(opcode::RELEASE, &[release.as_bytes()], Operation::Release { handle: 3 });
    check(opcode::RELEASEDIR, &[release.as_bytes()], Operation::Releasedir);
    let fsync = FsyncIn { fh: 3, fsync_flags: 1, padding: 0 };
    check(opcode::FSYNC, &[fsync.as_bytes()], Operation::Fsync { data_only: true });
    check(opcode::FSYNCDIR, &[fsync.as_bytes()], Operation::Fsyncdir { data_only: true });
    let fallocate = FallocateIn { fh: 1, offset: 2, length: 3, mode: 1, padding: 0 };
    let expected = Operation::Fallocate { offset: 2, bytes: 3, mode: 1 };
    check(opcode::FALLOCATE, &[fallocate.as_bytes()], expected);
    let lseek = LseekIn { fh: 1, offset: 2, whence: 4, padding: 0 };
    check(opcode::LSEEK, &[lseek.as_bytes()], Operation::Lseek { offset: 2, whence: 4 });
    let copy = CopyFileRangeIn { fh_in: 1, off_in: 2, nodeid_out: 3, fh_out: 4, off_out: 5, len: 6, flags: 0 };
    check(opcode::COPY_FILE_RANGE, &[copy.as_bytes()], Operation::CopyFileRange);
}

#[test]
fn operations_on_locks() {
    let lock = |kind, lk_flags| {
        let lock = FileLock { start: 5, end: i64::MAX as u64, kind, pid: 9 };
        LkIn { fh: 1, owner: 2, lock, lk_flags, padding: 0 }
    };
    let expected = |kind, is_flock| Lock { owner: 2, kind, start: 5, end: Lock::END, pid: 9, is_flock };
    check(opcode::GETLK, &[lock(0, 0).as_bytes()], Operation::Getlk(expected(LockKind::Shared, false)));
    let exclusive = Operation::Setlk { lock: expected(LockKind::Exclusive, true), waits: false };
    check(opcode::SETLK, &[lock(1, LK_FLOCK).as_bytes()], exclusive);
    let unlock = Operation::Setlk { lock: expected(LockKind::Unlock, false), waits: true };
    check(opcode::SETLKW, &[lock(2, 0).as_bytes()], unlock);
    let refused =
        |lock: LkIn| assert!(Request::decode(&request(opcode::SETLK, &[lock.as_bytes()])).is_err(), "{lock:?}");
    refused(lock(3, 0));
    let at = |start, end| LkIn { lock: FileLock { start, end, kind: 0, pid: 9 }, ..LkIn::default() };
    refused(at(5, 4));
    refused(at(5, Lock::END + 1));
}

#[test]
fn what_has_no_reply() {
    check(opcode::FORGET, &[&3u64.to_ne_bytes()], Operation::Forget { lookups: 3 });
    check(opcode::INTERRUPT, &[&40u64.to_ne_bytes()], Operation::Interrupt { unique: 40 });
    check(opcode::DESTROY, &[], Operation::Destroy);
    check(opcode::READLINK, &[], Operation::Readlink);
    check(opcode::STATFS, &[], Operation::Statfs);
    let ones = [ForgetOne { nodeid: 5, nlookup: 1 }, ForgetOne { nodeid: 6, nlookup: 2 }];
    let batch = Number { value: 2, padding: 0 };
    let bytes = request(opcode::BATCH_FORGET, &[batch.as_bytes(), ones.as_bytes()]);
    let Ok(Request { operation: Operation::BatchForget(forgets), .. }) = Request::decode(&bytes) else {
        panic!("it is a BATCH_FORGET");
    };
    assert_eq!(forgets.collect::<Vec<_>>(), [(NodeId(5), 1), (NodeId(6), 2)]);
    let more = Number { value: u32::MAX, padding: 0 };
    assert!(Request::decode(&request(opcode::BATCH_FORGET, &[more.as_bytes(), ones.as_bytes()])).is_err());
}

#[test]
fn init_has_one_word_of_flags_or_two() {
    let init = |flags: u32| InitIn { major: 7, minor: 31, max_readahead: 5, flags };
    let short = request(opcode::INIT, &[init(3).as_bytes()]);
    let extended = request(opcode::INIT, &[init(1 << 30).as_bytes(), &9u32.to_ne_bytes(), &[0; 44]]);
    for (bytes, flags) in [(short, 3), (extended, 1 << 30 | 9 << 32)] {
        let operation = Request::decode(&bytes).expect("it is a request").operation;
        assert_eq!(operation, Operation::Init(Init { major: 7, minor: 31, readahead_bytes_max: 5, flags }));
    }
    assert!(Request::decode(&request(opcode::INIT, &[init(1 << 30).as_bytes()])).is_err());
}

#[test]
fn names_that_no_directory_has_are_refused() {
    for name in [&b"\0"[..], b".\0", b"..\0", b"a/b\0", b"/\0", b"a", b"", b"a\0b\0"] {
        assert!(Request::decode(&request(opcode::LOOKUP, &[name])).is_err(), "{name:?}");
    }
    assert!(Request::decode(&request(opcode::SYMLINK, &[b"l\0\0"])).is_err(), "an empty target");
}

#[test]
fn what_is_not_known_is_named() {
    check_unknown(53);
    check_unknown(4096);
    check_unknown(0);
    assert_eq!(Request::decode(b"short"), Err(DecodeError { opcode: 0, unique: 0 }));
}

#[track_caller]
fn check_unknown(opcode: u32) {
    let bytes = request(opcode, &[b"anything"]);
    assert_eq!(Request::decode(&bytes).map(|request| request.operation), Ok(Operation::Unknown(opcode)));
}

#[test]
fn extensions_at_the_end_are_passed_over() {
    let mut bytes = request(opcode::LOOKUP, &[b"lib\0", &[1; 16]]);
    assert!(Request::decode(&bytes).is_err());
    bytes[36..38].copy_from_slice(&2u16.to_ne_bytes());
    assert_eq!(Request::decode(&bytes).map(|r| r.operation), Ok(Operation::Lookup { name: b"lib" }));
    bytes[36..38].copy_from_slice(&u16::MAX.to_ne_bytes());
    assert!(Request::decode(&bytes).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Request::decode(&bytes);
    }

    #[test]
    fn any_arguments_are_survived(opcode in 0u32..60, arguments in prop::collection::vec(any::<u8>(), 0..120)) {
        let bytes = request(opcode, &[&arguments]);
        if let Ok(Request { operation: Operation::BatchForget(forgets), .. }) = Request::decode(&bytes) {
            prop_assert!(forgets.count() * 16 <= arguments.len());
        }
    }

    #[test]
    fn any_name_and_data_round_trip(
        name in prop::collection::vec(1u8.., 1..255),
        data in prop::collection::vec(any::<u8>(), 0..5000),
    ) {
        let setxattr = SetxattrIn { size: data.len() as u32, flags: 0 };
        let bytes = request(opcode::SETXATTR, &[setxattr.as_bytes(), &name, b"\0", &data]);
        let expected = Operation::Setxattr { name: &name, value: &data, flags: 0 };
        prop_assert_eq!(Request::decode(&bytes).map(|request| request.operation), Ok(expected));
        let write = TransferIn { size: data.len() as u32, ..TransferIn::default() };
        let bytes = request(opcode::WRITE, &[write.as_bytes(), &data]);
        let decoded = Request::decode(&bytes).map(|request| request.operation);
        let is_written = matches!(decoded, Ok(Operation::Write { data: written, .. }) if written == data);
        prop_assert!(is_written);
    }
}
