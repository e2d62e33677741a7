//! Copies content from the node's cache into the store.

use std::sync::Arc;

use headwater_abi::wire::{Aspect, Digest, FileHead};
use headwater_abi::{Attr, Path};
use headwater_cache::{Cache, Found, Key};
use headwater_store::Incoming;

/// Bytes that are copied at once.
const PIECE_BYTES: u64 = 256 << 10;

/// Content to look for in the cache.
#[derive(Clone, Debug)]
pub struct FindJob {
    /// The file's original path.
    pub path: Path,
    /// Its loadable bytes, all of it, or one block.
    pub aspect: Aspect,
    /// Its present attributes.
    pub attr: Attr,
    /// What the store has already.
    pub have: Option<FileHead>,
    /// The target of the content.
    pub incoming: Arc<Incoming>,
}

/// Copies the job's content. Returns `None` if the cache lacks it, or the store can't take it.
pub(crate) fn find(cache: &Cache, job: &FindJob, buffer: &mut Vec<u8>) -> Option<(FileHead, Digest)> {
    // What is no library is loadable as a whole.
    let aspects = [Some(job.aspect), (job.aspect == Aspect::Loadable).then_some(Aspect::Whole)];
    let of = |aspect| cache.find(Key::new(&job.path, &job.attr, aspect), &job.attr);
    let found = aspects.into_iter().flatten().find_map(of)?;
    copy(&found, job, buffer).ok()?;
    Some((found.head, found.digest))
}

fn copy(found: &Found, job: &FindJob, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    let incoming = &job.incoming;
    incoming.create(&found.head)?;
    let target = if incoming.is_small() { None } else { Some(incoming.open()?) };
    let have = job.have.as_ref().filter(|_| incoming.is_in_place()).map_or(&[][..], |have| &have.ranges);
    let mut position = 0;
    while let Some((offset, in_range)) = found.head.locate(position) {
        let stored = have.iter().find(|&&(start, bytes)| (start..start + bytes).contains(&offset));
        if let Some((start, bytes)) = stored {
            position += in_range.min(start + bytes - offset);
            continue;
        }
        let next_stored = have.iter().find(|&&(start, _)| start > offset).map_or(u64::MAX, |(start, _)| start - offset);
        let bytes = in_range.min(next_stored).min(PIECE_BYTES) as usize;
        if incoming.is_given_up() {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        buffer.resize(buffer.len().max(bytes), 0);
        found.read(&mut buffer[..bytes], position)?;
        match &target {
            Some(target) => incoming.write_to(target, &buffer[..bytes], offset)?,
            None => incoming.write(&buffer[..bytes], offset)?,
        }
        position += bytes as u64;
    }
    Ok(())
}
