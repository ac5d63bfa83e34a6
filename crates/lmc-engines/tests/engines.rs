//! Every engine gives back what it was given, by every name, and one that does not is found out.

use lmc_codec::{Dtype, TensorSpec};
use lmc_engines::{
    Coded, Engine, HAS_PEERS, Label, LevelName, Measured, ON_BASE, Pace, Result, Room, Sample,
    SampleTensor, Spec, WholeFile, against, alone, check_names, names, on_base,
};

/// bf16 values with few exponents, a multiple of 4 KiB and a rest.
fn values(seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0x3c00 | (state >> 24) as u16
    };
    (0..100_001).flat_map(|_| next().to_le_bytes()).collect()
}

fn tensors(len: usize) -> [SampleTensor; 2] {
    let spec = TensorSpec { dtype: Dtype::Bf16, row_len: 512 };
    [SampleTensor { len: 80_000, spec }, SampleTensor { len: len - 80_000, spec }]
}

fn measure(engines: &mut [Box<dyn Engine>], samples: &[Sample]) -> Result<Measured> {
    let room = |sample: &Sample| Room::new(engines, sample.bytes.len());
    let mut rooms: Vec<Room> = samples.iter().map(room).collect();
    let mut measured = Measured::new(engines[0].label());
    measured.round(engines, samples, &mut rooms)?;
    measured.round(engines, samples, &mut rooms)?;
    Ok(measured)
}

/// Bytes out of an engine on all samples, for one large buffer and for pieces on three threads.
fn sizes(spec: &Spec, samples: &[Sample]) -> (usize, usize) {
    let mut one = [spec.for_buffer().expect("an engine")];
    let mut three = [(); 3].map(|()| spec.for_pieces().expect("an engine"));
    let buffer = measure(&mut one, samples).expect("what it was given");
    let pieces = measure(&mut three, samples).expect("what it was given");
    assert_eq!(buffer.bytes_in, samples.iter().map(|sample| sample.bytes.len()).sum::<usize>());
    assert!(buffer.rounds == 2 && buffer.compress.wall_s > 0.0, "{buffer:?}");
    (buffer.bytes_out, pieces.bytes_out)
}

#[test]
fn all_engines_give_back_what_they_were_given() {
    let (data, base) = (values(1), values(2));
    let tensors = tensors(data.len());
    let sample = Sample { bytes: &data, base: Some(&base), tensors: &tensors };
    let samples = [sample, sample, sample, sample];
    for spec in alone(&["all"], 2) {
        let (buffer, pieces) = sizes(&spec, &samples);
        let label = spec.for_buffer().expect("an engine").label();
        let is_smaller = buffer < 4 * data.len() && pieces < 4 * data.len();
        assert!(is_smaller || ["memcpy", "lz4", "snappy"].contains(&label.engine), "{label}");
    }
    for name in ON_BASE.into_iter().filter(|name| HAS_PEERS || !name.contains('-')) {
        let spec = on_base(name, 2).expect("a known name");
        let label = spec.for_buffer().expect("an engine").label();
        assert_eq!(label.base, name != "alone", "{label}");
        // Nearly nothing is left of a checkpoint that is its own base.
        let same = Sample { base: Some(&data), ..sample };
        let (buffer, pieces) = sizes(&spec, &[same; 4]);
        assert_eq!(label.base, buffer.max(pieces) < data.len() / 10, "{label}");
    }
}

/// A sample that has no base is coded alone by an engine for bases.
#[test]
fn samples_without_a_base() {
    let data = values(1);
    let tensors = tensors(data.len());
    let sample = Sample { bytes: &data, base: None, tensors: &tensors };
    let with = sizes(&on_base("default", 2).expect("a known name"), &[sample]);
    let without = sizes(&on_base("alone", 2).expect("a known name"), &[sample]);
    assert_eq!(with, without);
}

/// Words of `width` bytes, of which the upper half has few values, and a part of a word at the end.
fn words(width: usize, seed: u32) -> Vec<u8> {
    let halves = values(seed).into_iter().take(40_000);
    let byte = |(i, byte): (usize, u8)| if 2 * (i % width) >= width { 60 + byte % 4 } else { byte };
    halves.enumerate().map(byte).chain([7; 3]).collect()
}

/// Every engine gives back values of every width, alone, against a base and where there is none.
/// It needs more room than the sample has bytes only where it says so, and values that do not
/// change cost nearly nothing against their base.
#[test]
fn every_width_comes_back() {
    for (width, dtype) in [(1, Dtype::U8), (2, Dtype::Bf16), (4, Dtype::F32), (8, Dtype::F64)] {
        let (data, base) = (words(width, 1), words(width, 2));
        let tensors = [SampleTensor::new(data.len(), dtype, 100)];
        let sample = |base| Sample { bytes: &data, base, tensors: &tensors };
        for spec in alone(&["all"], width).iter().chain(&against(&["all"], width)) {
            let label = spec.for_buffer().expect("an engine").label();
            for base in [None, Some(&base), Some(&data)] {
                let (buffer, _) = sizes(spec, &[sample(base.map(Vec::as_slice))]);
                let is_same = label.base && base == Some(&data);
                assert!(!is_same || buffer < data.len() / 10, "{label}, width {width}: {buffer}");
            }
        }
    }
}

/// Samples that are empty, of one byte, of zeros alone and of noise come back too: noise needs more
/// room than it has bytes.
#[test]
fn odd_samples_come_back() {
    let mut noise = values(3);
    let mut state = 1_u64;
    for byte in &mut noise {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (state >> 56) as u8;
    }
    for data in [vec![], vec![5], vec![0; 3_000_000], noise] {
        let tensors = [SampleTensor::new(data.len(), Dtype::Bf16, 0)];
        let sample = Sample { bytes: &data, base: Some(&data), tensors: &tensors };
        for spec in alone(&["all"], 2).iter().chain(&against(&["all"], 2)) {
            sizes(spec, &[sample]);
        }
    }
}

#[test]
fn whole_files_come_back() {
    let data = values(1);
    let sample = Sample { bytes: &data, base: None, tensors: &[] };
    for level in LevelName::ALL {
        let measured = measure(&mut [Box::new(WholeFile::new(level, 2))], &[sample]);
        assert!(measured.expect("the file").share() < 0.9, "{level}");
    }
}

fn labels(specs: &[Spec]) -> Vec<String> {
    specs.iter().map(|spec| spec.for_buffer().expect("an engine").label().to_string()).collect()
}

/// Names select engines, levels and groups; what selects nothing is an error that lists the names.
#[test]
fn names_of_ours() {
    assert_eq!(labels(&alone(&["ours"], 2)).len(), 5);
    assert_eq!(labels(&alone(&["lmc-max"], 2)), ["memcpy", "lmc max"]);
    let against = against(&["lmc-default", "lmc-paper"], 2);
    assert_eq!(labels(&against), ["lmc default, on base", "lmc paper, on base"]);
    assert_eq!(against.iter().map(Spec::is_xor).collect::<Vec<_>>(), [false, true]);
    assert!(check_names(&names()).is_ok());
    assert!(check_names(&["lmc-paper", "all", "memcpy"]).is_ok());
    for name in ["rar", "zstd-2", "lmc-", ""] {
        let error = check_names(&[name]).expect_err("no such engine").to_string();
        assert!(error.starts_with(&format!("no engine `{name}`: ours, peers, all")), "{error}");
    }
    assert!(on_base("rar", 2).is_err() && on_base("xor+zstd", 2).is_err());
}

/// A group has the engines that it always had; slow levels and others come by name or with `all`.
#[test]
#[cfg(feature = "peers")]
fn names_of_peers() {
    let labels = |names: &[&str], width| labels(&alone(names, width));
    assert_eq!(labels(&["lz4"], 2), ["memcpy", "lz4 -1", "lz4 -1, byte groups"]);
    assert_eq!(labels(&["zstd"], 1), ["memcpy", "zstd -1", "zstd -3"]);
    assert_eq!(labels(&["zstd-19", "snappy"], 1), ["memcpy", "zstd -19", "snappy"]);
    let peers = ["memcpy", "zstd -1", "zstd -3", "lz4 -1", "bzip2 -9", "xz -1"];
    assert_eq!(labels(&["peers"], 1), peers);
    assert_eq!(labels(&["peers"], 2).len(), 11);
    assert_eq!(labels(&["all"], 2).len(), 1 + 4 + 2 * 10);
    let against = against(&["zlib"], 4);
    assert_eq!(self::labels(&against), ["zlib -6, on base", "zlib -6, byte groups, on base"]);
    assert!(against.iter().all(Spec::is_xor));
    assert!(on_base("xor+zstd-19", 2).is_ok_and(|spec| spec.is_xor()));
}

/// Loses the last byte.
struct Lossy;

impl Engine for Lossy {
    fn label(&self) -> Label {
        Label { engine: "lossy", level: String::new(), grouped: false, base: false }
    }

    fn pace(&self) -> Pace {
        Pace::Full
    }

    fn compress(&mut self, sample: Sample, coded: &mut Coded) -> Result<()> {
        coded.len = sample.bytes.len() - 1;
        coded.bytes[..coded.len].copy_from_slice(&sample.bytes[..coded.len]);
        Ok(())
    }

    fn decompress(&mut self, coded: &Coded, _base: Option<&[u8]>, out: &mut [u8]) -> Result<()> {
        out[..coded.len].copy_from_slice(&coded.bytes[..coded.len]);
        Ok(())
    }
}

#[test]
fn bytes_that_do_not_come_back_are_an_error() {
    // Neither a result of an earlier engine nor fresh memory passes for what came back.
    for last in [0, 1] {
        let bytes = [7, 7, last];
        let sample = Sample { bytes: &bytes, base: None, tensors: &[] };
        let error = measure(&mut [Box::new(Lossy)], &[sample]).expect_err("a byte is lost");
        assert!(error.to_string().contains("differ from the input"), "{error}");
    }
}
