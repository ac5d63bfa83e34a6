//! Every file comes back byte for byte: safetensors of every type and shape, anything else, on any
//! number of threads, as a whole and in parts.

use crate::common::{compress, compress_with, safetensors};
use lmc::{Archive, Context, Dtype, Level, NewMemory, Options, decompress_to_vec};
use lmc_testkit::data::{self, Kind, Random};
use proptest::prelude::*;

/// Compresses `original` at every level and compares what comes back, whole and in parts.
fn check(original: &[u8]) {
    for level in [Level::Fast, Level::Default, Level::Max, Level::Paper] {
        let archive = Archive::from_bytes(compress(original, level, 2)).expect("a valid file");
        assert_eq!(archive.original_len(), original.len() as u64);
        assert!(
            decompress_to_vec(&archive, &Context::with_threads(2)).expect("restored") == original,
            "{level:?}"
        );
        let (third, end) = (original.len() as u64 / 3, original.len() as u64);
        for range in [0..third, third..2 * third, 2 * third..end, end..end] {
            let part = archive.read(range.clone()).expect("a part");
            assert!(part == original[range.start as usize..range.end as usize]);
        }
        check_tensors(&archive, original);
    }
}

fn check_tensors(archive: &Archive, original: &[u8]) {
    for tensor in archive.tensors().expect("tensors") {
        let range = tensor.range.start as usize..tensor.range.end as usize;
        let bytes = archive.read_tensor(&tensor).expect("a tensor");
        assert!(bytes == original[range], "{}", tensor.name);
    }
}

/// Tensors of every type that safetensors has, with odd shapes, scalars and nothing in them.
#[test]
fn every_safetensors_type() {
    let named = |dtype: Dtype| Some((dtype.in_safetensors()?, dtype.bits()));
    let types = Dtype::ALL.into_iter().filter_map(named);
    let mut tensors = Vec::new();
    for (name, bits) in types {
        for shape in [vec![], vec![8], vec![0, 3], vec![3, 40], vec![24, 1, 77], vec![100_000]] {
            let count: u64 = shape.iter().product();
            if !(count * bits).is_multiple_of(8) {
                continue;
            }
            let width = (bits / 8).max(1) as usize;
            let n = (count * bits / 8) as usize / width;
            let bytes = data::words(Kind::Weights, width, true, n, count);
            tensors.push((format!("{name} {shape:?}"), name, shape, bytes));
        }
    }
    let original = safetensors(&tensors, r#""__metadata__":{"format":"pt"},"#);
    check(&original);
    let archive = Archive::from_bytes(compress(&original, Level::Default, 1)).expect("valid");
    assert_eq!(archive.tensors().expect("tensors").len(), tensors.len());
}

/// Lengths around the bounds of blocks and spans, of bytes that nothing is known of.
#[test]
fn any_file_of_any_length() {
    let mut random = Random::new(3);
    let bytes = random.bytes(70_000);
    for len in (0..300).chain(65_500..65_600).chain([70_000]) {
        let archive =
            Archive::from_bytes(compress(&bytes[..len], Level::Default, 1)).expect("valid");
        assert!(
            decompress_to_vec(&archive, &Context::with_threads(1)).expect("restored")
                == bytes[..len],
            "{len}"
        );
    }
    for len in [(1 << 18) - 1, 1 << 18, (1 << 23) - 1, 1 << 23, (1 << 23) + 1] {
        let floats = data::words(Kind::Weights, 2, true, len / 2 + 1, 5);
        check(&floats[..len]);
    }
}

/// A file costs at most 64 KiB and a thousandth more than its original.
#[test]
fn noise_hardly_grows() {
    let noise = Random::new(4).bytes(3_000_000);
    for level in [Level::Fast, Level::Default, Level::Max, Level::Paper] {
        let len = compress(&noise, level, 2).len();
        assert!(len <= noise.len() + (64 << 10) + noise.len() / 1000, "{level:?}: {len}");
    }
}

/// Many tensors, tiny ones too: names that look alike, items that share spans, and a header of more
/// than one span.
#[test]
fn a_hundred_thousand_tensors() {
    let tensors: Vec<_> = (0..130_000_u32)
        .map(|i| (format!("layer.{}.{i}", i % 7), "F32", vec![1], i.to_le_bytes().to_vec()))
        .collect();
    let original = safetensors(&tensors, "");
    assert!(original.len() > (8 << 20) + 4 * tensors.len(), "the header is long");
    let coded = compress(&original, Level::Default, 2);
    assert!(coded.len() < original.len());
    let archive = Archive::from_bytes(coded).expect("valid");
    assert!(decompress_to_vec(&archive, &Context::with_threads(2)).expect("restored") == original);
    let listed = archive.tensors().expect("tensors");
    assert_eq!(listed.len(), tensors.len());
    assert_eq!(archive.read_tensor(&listed[77_777]).expect("a tensor"), 77_777_u32.to_le_bytes());
}

/// A long tensor is cut between its rows into several spans, and has one checksum all the same.
#[test]
fn long_tensors_have_several_spans() {
    let bytes = data::words(Kind::Weights, 4, true, 3 * 1000 * 1000, 9);
    let original = safetensors(&[("w".into(), "F32", vec![3000, 1000], bytes)], "");
    check(&original);
    let archive = Archive::from_bytes(compress(&original, Level::Fast, 2)).expect("valid");
    assert_eq!(archive.span_count(), 3);
}

/// The same bytes come out for every number of threads, verified or not, from memory or a stream.
#[test]
fn output_does_not_depend_on_threads() {
    let bytes = data::words(Kind::Weights, 2, true, 12_000_000, 2);
    let original = safetensors(&[("w".into(), "BF16", vec![12_000, 1000], bytes)], "");
    let one = compress(&original, Level::Default, 1);
    for threads in [2, 5, 16] {
        assert!(compress(&original, Level::Default, threads) == one, "{threads} threads");
    }
    let options = Options {
        level: Level::Default,
        context: Context::with_threads(3),
        verify: false,
        ..Options::default()
    };
    assert!(compress_with(lmc::Input::Stream(&mut &original[..]), &options) == one);
    // In one place, and in many, some of them empty and others within a value.
    let cuts = [0, 7, 7, 8, 100, 3_000_001, 3_000_001, 20_000_000, original.len()];
    let scattered: Vec<&[u8]> = cuts.windows(2).map(|cut| &original[cut[0]..cut[1]]).collect();
    for input in [lmc::Input::Bytes(&original), lmc::Input::Parts(&scattered)] {
        let parts = lmc::compress_parts(input, &options, Vec::new()).expect("compressed");
        assert!(parts.concat() == one);
    }
    // Into memory that is long enough, or holds the first spans alone, or not even the header.
    for len in [one.len() + 1000, one.len(), one.len() / 2, 3] {
        let mut out = vec![0xa5; len];
        let input = lmc::Input::Bytes(&original);
        let (written, rest) = lmc::compress_into(input, &options, &mut out).expect("compressed");
        assert_eq!(rest.is_empty(), len >= one.len());
        assert!([&out[..written], &rest.concat()].concat() == one, "{len} bytes of memory");
    }
    assert!(compress_with(lmc::Input::Parts(&scattered), &options) == one);
    assert!(compress(&[], Level::Default, 1) == compress_with(lmc::Input::Parts(&[]), &options));
}

/// Restored into one place or many, whole or in part, the bytes are the same.
#[test]
fn restored_into_places() {
    let tensor = |i: usize| {
        let bytes = data::words(Kind::Weights, 2, true, [3_000_000, 70, 0, 500][i % 4], i as u64);
        (format!("t{i}"), "BF16", vec![bytes.len() as u64 / 2], bytes)
    };
    let tensors: Vec<_> = (0..12).map(tensor).collect();
    let original = safetensors(&tensors, "");
    let archive = Archive::from_bytes(compress(&original, Level::Default, 2)).expect("valid");
    let mut out = vec![0xa5; original.len()];
    let mut rest = &mut out[..];
    let mut places = Vec::new();
    for len in [1, 0, 5_000_000, 1_000_003, 17, 0, 1000, usize::MAX] {
        let len = len.min(rest.len());
        let (place, after) = std::mem::take(&mut rest).split_at_mut(len);
        places.push(place);
        rest = after;
    }
    lmc::decompress_scattered(&archive, places, &Context::with_threads(3)).expect("restored");
    assert!(out == original);
    let mut short = vec![0; original.len() - 1];
    assert!(lmc::decompress_into(&archive, &mut short, &Context::with_threads(1)).is_err());
    let len = original.len();
    for (start, end) in [(0, len), (0, 0), (len, len), (3, 10), (100, len - 1), (6_000_100, len)] {
        let mut out = vec![0x5a; end - start];
        archive.read_to(start as u64, &mut out, &Context::with_threads(3)).expect("restored");
        assert!(out == original[start..end], "{start} to {end}");
    }
    assert!(archive.read_to(1, &mut out, &Context::with_threads(1)).is_err());
    assert!(archive.read_to(u64::MAX, &mut out, &Context::with_threads(1)).is_err());
}

/// What comes back in new memory is the same on any number of threads, and so is what was
/// compressed into new memory.
#[test]
fn into_new_memory() {
    let bytes = data::words(Kind::Weights, 2, true, 12_000_000, 6);
    let original = safetensors(&[("w".into(), "BF16", vec![12_000, 1000], bytes)], "");
    for threads in [1, 2, 5, 16] {
        let context = Context::with_threads(threads);
        let options = Options { context: context.clone(), ..Options::default() };
        let mut coded = NewMemory::new(2 * original.len() as u64).expect("memory");
        let input = lmc::Input::Bytes(&original);
        let (len, rest) = lmc::compress_into(input, &options, &mut coded).expect("compressed");
        assert!(rest.is_empty());
        assert!(coded[len..].iter().all(|&byte| byte == 0), "nothing is written behind it");
        let archive = Archive::from_bytes(coded[..len].to_vec()).expect("valid");
        let restored = lmc::decompress_to_memory(&archive, &context).expect("restored");
        assert!(restored[..] == original, "{threads} threads");
    }
    let nothing = Archive::from_bytes(compress(&[], Level::Default, 1)).expect("valid");
    let restored = lmc::decompress_to_memory(&nothing, &Context::with_threads(2));
    assert!(restored.expect("restored").is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    /// Any bytes, and any bytes behind something like a safetensors header.
    #[test]
    fn any_bytes(
        tail in prop::collection::vec(any::<u8>(), 0..600),
        shape in 0_u64..40,
        n in 0_u64..90,
    ) {
        let fields = format!(r#""dtype":"U8","shape":[{shape}],"data_offsets":[0,{n}]"#);
        let header = format!(r#"{{"t":{{{fields}}}}}"#);
        let mut original = (header.len() as u64).to_le_bytes().to_vec();
        original.extend_from_slice(header.as_bytes());
        original.extend_from_slice(&tail);
        for bytes in [&tail[..], &original[..]] {
            let archive = Archive::from_bytes(compress(bytes, Level::Default, 1)).expect("valid");
            let context = Context::with_threads(1);
            let restored = decompress_to_vec(&archive, &context).expect("restored");
            prop_assert!(restored == bytes);
        }
    }
}
