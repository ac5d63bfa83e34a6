//! Both directions from memory to memory, without a copy in between.

use crate::Options;
use crate::archive::Archive;
use crate::compress::{Assembly, Job, Worker};
use crate::decompress::{check_empty_items, check_part, decode_part, parts};
use crate::io::{Input, Source, zeroed};
use crate::pipeline::{Pool, each, thread_count};
use crate::span::SpanDecoder;
use lmc_format::file::header;
use lmc_format::{Error, Result};
use std::sync::Mutex;

/// Compresses `input` to parts that make the file when they stand one behind the other.
///
/// `reuse` is memory for them, such as the parts of an earlier call: new memory costs more than
/// coding on many cores.
pub fn compress_parts(
    input: Input,
    options: &Options,
    reuse: Vec<Vec<u8>>,
) -> Result<Vec<Vec<u8>>> {
    let source = Source::new(input)?;
    let stamp = source.stamp()?;
    let job = Job::new(&source, options)?;
    let cuts = &job.spans.cuts;
    let pool = Pool::new(reuse);
    let threads = thread_count(options.threads);
    let coded = each(
        cuts.len(),
        threads,
        || Worker::new(options),
        |worker, i| {
            let range = &cuts[i].range;
            let raw = source.bytes(range.start, range.end - range.start)?;
            worker.encode(&job, i, &raw, pool.take())
        },
    )?;
    let mut assembly = Assembly::new(&job);
    let mut file = vec![header().to_vec()];
    for (cut, done) in cuts.iter().zip(coded) {
        file.push(assembly.add(cut, done).1);
    }
    file.push(assembly.finish()?);
    source.check_unchanged(stamp)?;
    options.bases.check_unchanged()?;
    Ok(file)
}

/// Restores all of the original into `out`, which must be as long as it is.
pub fn decompress_into(archive: &Archive, out: &mut [u8], threads: usize) -> Result<()> {
    if out.len() as u64 != archive.original_len() {
        return Err(Error::invalid(format!(
            "the original has {} bytes, the buffer {}",
            archive.original_len(),
            out.len()
        )));
    }
    archive.check_bases(0)?;
    let index = &archive.index;
    let parts = parts(index);
    let mut rest = out;
    let mut places = Vec::with_capacity(parts.len());
    for span in &index.spans {
        let (own, after) = rest.split_at_mut(span.raw_len as usize);
        // Each is locked once, by the thread that decodes into it.
        places.push(Mutex::new(own));
        rest = after;
    }
    let hashes = each(parts.len(), thread_count(threads), SpanDecoder::default, |decoder, i| {
        let mut out = places[i].lock().map_err(|_| Error::invalid("another thread failed"))?;
        let coded = archive.span_bytes(i)?;
        decode_part(archive, i, &parts[i], decoder, &coded, &mut out)
    })?;
    let mut open = Vec::new();
    for (part, hashes) in parts.iter().zip(hashes) {
        check_part(index, part, hashes, &mut open)?;
    }
    check_empty_items(index)
}

/// Restores all of the original into new memory.
pub fn decompress_to_vec(archive: &Archive, threads: usize) -> Result<Vec<u8>> {
    let mut out = zeroed(archive.original_len())?;
    decompress_into(archive, &mut out, threads)?;
    Ok(out)
}
