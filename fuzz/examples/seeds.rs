//! Writes the seed corpus: valid inputs for every target, to `fuzz/corpus/<target>/`.
//!
//! `cargo run --release --manifest-path fuzz/Cargo.toml --example seeds`

#[path = "../../crates/lmc-input/tests/dcp_made.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod dcp_made;
#[path = "../../crates/lmc-input/tests/gguf_made.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod gguf_made;
#[path = "../../crates/lmc-input/tests/hdf5_made.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod hdf5_made;
#[path = "../../crates/lmc-input/tests/legacy_made.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod legacy_made;
#[path = "../../crates/lmc-input/tests/made.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod made;
#[path = "../../crates/lmc-input/tests/numpy_made.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod numpy_made;
#[path = "../../crates/lmc-input/tests/onnx_made.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod onnx_made;
#[path = "../../crates/lmc-codec/tests/common/recipes/mod.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod recipes;
#[path = "../../crates/lmc-input/tests/torch_made.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod torch_made;

use lmc_codec::{Block, Dtype, Encoder, Level, Plan, TensorSpec};
use lmc_format::{BlockPrefix, Coder, Reader};
use lmc_fuzz::{ChainHead, HistogramHead, encode_plane};
use lmc_store::storage::{MemoryStorage, Storage};
use lmc_store::{SaveOptions, Store, SystemClock};
use lmc_testkit::data::{self, Kind, Random};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::{fs, io};

const LEVELS: [Level; 4] = [Level::Fast, Level::Default, Level::Max, Level::Paper];
const SIZES: [usize; 7] = [0, 1, 31, 64, 100, 1000, 3000];

fn put(target: &str, name: &str, parts: &[&[u8]]) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), parts.concat())
}

/// Bytes that are rarer the larger they are.
fn skewed(n: usize, random: &mut Random) -> Vec<u8> {
    let mut byte = || random.next_u64().trailing_zeros() as u8 * 3 + random.below(3) as u8;
    (0..n).map(|_| byte()).collect()
}

fn planes() -> io::Result<()> {
    let mut random = Random::new(1);
    for n in SIZES {
        let name = format!("seed-{n}");
        let plane = skewed(n, &mut random);
        let size = (n as u16).to_le_bytes();
        let mut head = HistogramHead { n: n as u16, counts: [0; 256] };
        plane.iter().for_each(|&b| {
            let count = &mut head.counts[usize::from(b)];
            *count = count.saturating_add(1);
        });
        head.counts[0] = head.counts[0].max(1);
        head.counts[1] = head.counts[1].max(1);
        let coders = [
            ("huffman_decode", head.huffman()),
            ("rans_decode", head.rans()),
            ("tree_decode", head.tree()),
        ];
        for (target, coder) in coders {
            let stream = coder.and_then(|coder| encode_plane(&coder, &plane)).expect("all present");
            put(target, &name, &[&size, &head.counts, &stream])?;
        }
        for levels in 0..12_u8 {
            let shape = random.next_u64() as u16 & 0x155;
            let symbols = std::array::from_fn(|i| i as u8);
            let head = ChainHead { n: n as u16, levels, shape, symbols };
            let stream = head.coder().and_then(|coder| encode_plane(&coder, &plane));
            let stream = stream.expect("a chain codes every byte");
            let shape = shape.to_le_bytes();
            let name = format!("{name}-{levels}");
            put("chain_decode", &name, &[&size, &[levels], &shape, &symbols, &stream])?;
        }
        for mask in [0xff, 0x7f, 0x15, 0x80, 0x03] {
            let rest = 0x68 & !mask;
            let plane: Vec<u8> = random.bytes(n).iter().map(|b| b & mask | rest).collect();
            let stream = encode_plane(&Coder::Packed { mask, rest }, &plane);
            let stream = stream.expect("only the mask varies");
            put("packed_decode", &format!("{name}-{mask}"), &[&size, &[mask, rest], &stream])?;
        }
        let stream = encode_plane(&Coder::Runs, &plane).expect("runs code every byte");
        put("runs_decode", &name, &[&size, &stream])?;
        for low_bits in [0, 1, 4, 9, 24] {
            let few: Vec<u8> = plane.iter().map(|b| b >> 4).collect();
            let stream = encode_plane(&Coder::Gaps(low_bits), &few).expect("gaps code every byte");
            put("gaps_decode", &format!("{name}-{low_bits}"), &[&size, &[low_bits], &stream])?;
        }
        for i in 0..40 {
            let coder = recipes::CoderKind::Apart.fit(&[&plane], &mut random);
            let stream = encode_plane(&coder, &plane).expect("the coder was made for the bytes");
            let mut parameters = Vec::new();
            coder.write(&mut parameters);
            put("apart_decode", &format!("{name}-{i}"), &[&size, &parameters[1..], &stream])?;
        }
    }
    Ok(())
}

/// Shared recipes by classes, by bins and by changes, with their bases and the bodies of their
/// blocks.
fn on_bases() -> io::Result<()> {
    let mut random = Random::new(3);
    for i in 0..600_u32 {
        let case = recipes::classes::random_class_case(random.below(200), &mut random);
        put_on_base("classes_decode", i, &case)?;
        let case = recipes::bins::random_bin_case(random.below(200), &mut random);
        put_on_base("bins_decode", i, &case)?;
        let case = recipes::changes::random_change_case(random.below(200), &mut random);
        put_on_base("changes_decode", i, &case)?;
    }
    Ok(())
}

/// Palettes that blocks share, and the bodies of those blocks.
fn palettes() -> io::Result<()> {
    let mut random = Random::new(5);
    for i in 0..600_u32 {
        let case = recipes::palettes::random_palette_case(random.below(200), &mut random);
        if case.shared.is_empty() {
            continue;
        }
        let mut body = Reader::new(&case.block);
        BlockPrefix::read(&mut body).expect("a valid block");
        let lengths = [case.shared.len(), case.raw.len()].map(|len| (len as u16).to_le_bytes());
        let parts = [&lengths.concat()[..], &case.shared, body.rest()];
        put("palette_decode", &format!("seed-{i}"), &parts)?;
    }
    Ok(())
}

/// Text in blocks of kind zstd, alone and on the base that the target has.
fn texts() -> io::Result<()> {
    for (i, len) in [1, 30, 300, 3000, 30_000].into_iter().enumerate() {
        let words = b"a base that text may refer to";
        let base: Vec<u8> = words.iter().copied().cycle().take(len).collect();
        let text = [&data::log(len / 2, 7)[..], &base].concat();
        let bases = [None, Some(&base)];
        for (level, base) in LEVELS.into_iter().take(3).flat_map(|l| bases.map(|base| (l, base))) {
            let block = Block { bytes: &text[..len], base: base.map(|base| &base[..]) };
            let spec = TensorSpec { dtype: Dtype::Bytes, row_len: 0 };
            let mut out = Vec::new();
            Encoder::new().encode_block(&Plan::new(&spec, level, block), 0, block, &mut out);
            let mut body = Reader::new(&out);
            BlockPrefix::read(&mut body).expect("a valid block");
            let name = format!("seed-{i}-{level:?}-{}", base.is_some());
            put("zstd_decode", &name, &[&(len as u16).to_le_bytes(), body.rest()])?;
        }
    }
    Ok(())
}

/// Writes a case as an input, if it has a shared recipe.
fn put_on_base(target: &str, i: u32, case: &recipes::Case) -> io::Result<()> {
    let Some(base) = &case.base else { return Ok(()) };
    if case.shared.is_empty() {
        return Ok(());
    }
    let mut body = Reader::new(&case.block);
    BlockPrefix::read(&mut body).expect("a valid block");
    let lengths = [case.shared.len(), base.len()].map(|len| (len as u16).to_le_bytes());
    let parts = [&lengths.concat()[..], &case.shared, base, body.rest()];
    put(target, &format!("seed-{i}"), &parts)
}

/// Blocks of every type, kind and level, some with a shared recipe.
fn blocks() -> io::Result<()> {
    for (i, dtype) in Dtype::ALL.into_iter().enumerate() {
        for kind in Kind::ALL {
            for level in LEVELS {
                let float = dtype != Dtype::Bytes && i < 8;
                let n = if i % 3 == 0 { 150_001 } else { 2500 };
                let tensor = data::words(kind, dtype.width(), float, n, i as u64);
                let spec = TensorSpec { dtype, row_len: 48 };
                let plan = Plan::new(&spec, level, Block::alone(&tensor));
                let bytes = &tensor[..2000 + i % 7];
                let mut block = Vec::new();
                Encoder::new().encode_block(&plan, 0, Block::alone(bytes), &mut block);
                let recipe = plan.shared_recipe();
                let len = (recipe.len() as u16).to_le_bytes();
                let name = format!("seed-{dtype:?}-{kind:?}-{level:?}");
                let range = [100_u32.to_le_bytes(), 2000_u32.to_le_bytes()].concat();
                put("block_decode", &name, &[&len, recipe, &block])?;
                put("range_decode", &name, &[&range, &len, recipe, &block])?;
                put("recipe_read", &name, &[if recipe.is_empty() { &block[3..] } else { recipe }])?;
                let kind = kind as u8 | u8::from(float) << 7;
                let head = [i as u8, level as u8, 48, 0, kind, 200, i as u8, 1, 0, 2, i as u8];
                put("roundtrip", &name, &[&head, &bytes[..64]])?;
            }
        }
    }
    Ok(())
}

/// Blocks with recipes that the planner would not choose.
fn hand_made() -> io::Result<()> {
    let mut random = Random::new(2);
    for i in 0..400_u32 {
        let case = recipes::any_case(random.below(200), &mut random);
        let len = (case.shared.len() as u16).to_le_bytes();
        let name = format!("hand-{i}");
        let range = [i, 7 * i].map(u32::to_le_bytes).concat();
        put("block_decode", &name, &[&len, &case.shared, &case.block])?;
        put("range_decode", &name, &[&range, &len, &case.shared, &case.block])?;
        put("recipe_read", &name, &[&case.shared])?;
    }
    Ok(())
}

/// The golden files, as their index and body.
fn files() -> io::Result<()> {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata"))? {
        let path = entry?.path();
        let file = fs::read(&path)?;
        let (Some(end), true) =
            (file.len().checked_sub(64), path.extension() == Some("lmc".as_ref()))
        else {
            continue;
        };
        let footer = lmc_format::Footer::read(&file[..16], &file[end..], file.len() as u64);
        let footer = footer.expect("a golden file");
        let (body, index) = file[16..end].split_at(footer.body_len as usize);
        let lengths =
            [&(index.len() as u16).to_le_bytes()[..], &footer.original_len.to_le_bytes()[..4]];
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        put("file_read", &name, &[&lengths.concat(), index, body])?;
        put("file_read", &format!("{name}-whole"), &[&file])?;
    }
    let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    put("safetensors_parse", "one", &[header.as_bytes()])?;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/torch_state.pt");
    let torch_file = fs::read(path)?;
    put("torch_file", "whole", &[&torch_file])?;
    let start = torch_file.windows(3).position(|w| w == b"\x80\x02}").unwrap_or(0);
    let end = torch_file.windows(4).position(|w| w == b"PK\x07\x08").unwrap_or(torch_file.len());
    put("torch_file", "pickle", &[torch_file.get(start..end).unwrap_or_default()])?;
    checkpoints()
}

/// A matrix of f32 in a file of each other format that is read.
fn checkpoints() -> io::Result<()> {
    let (weight, matrix) = (torch_made::text("w"), torch_made::tensor());
    let state = [b"\x80\x02}", &weight[..], &matrix, b"s."].concat();
    let data = [7; 16];
    let legacy = legacy_made::legacy_file(&state, &[("0", 4, &data)]);
    put("torch_legacy_file", "whole", &[&legacy])?;
    put("torch_legacy_file", "rest", &[&legacy[legacy_made::head().len()..]])?;
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
    put("numpy_file", "header", &[header.as_bytes()])?;
    let npy = numpy_made::npy("'<f4'", "True", "(2, 2)", &data);
    put("numpy_file", "npy", &[&npy])?;
    put("numpy_file", "npz", &[&torch_made::zip(&[torch_made::Made::new("w.npy", &npy)])])?;
    let part = torch_made::torch_file(&state);
    put("dcp_file", "parts", &[&part, &part])?;
    let parts = [("w", Some(&[0, 0][..]), "a", 0, 9), ("w", Some(&[2, 0]), "a", 9, 9)];
    put("dcp_file", "metadata", &[&dcp_made::metadata(&parts)])?;
    let pairs = [gguf_made::pair("general.name", 8, &gguf_made::string("model"))];
    let listed = [gguf_made::listed("w", &[2, 2], 0, 0)];
    let gguf = gguf_made::gguf(&pairs, &listed, 32, &data);
    put("gguf_file", "whole", &[&gguf])?;
    put("gguf_file", "rest", &[&gguf[8..]])?;
    let tensor = onnx_made::bytes(5, &onnx_made::tensor("w", 1, &[2, 2], &data));
    let node = onnx_made::bytes(1, &onnx_made::bytes(5, &tensor));
    put("onnx_file", "whole", &[&onnx_made::model(&tensor)])?;
    put("onnx_file", "graph", &[&tensor, &node])?;
    for is_new in [false, true] {
        let mut file = hdf5_made::File::new(is_new);
        let at = file.put(&data);
        let dataset = file.object(&hdf5_made::floats(&[2, 2], at, 16));
        put("hdf5_file", &format!("object-{is_new}"), &[&file.bytes[dataset as usize..]])?;
        let root = file.group(&[("w", dataset)]);
        put("hdf5_file", &format!("whole-{is_new}"), &[&file.with_root(root)])?;
    }
    Ok(())
}

/// The manifests of a history in memory: chains, links, odd names, a single file, and an empty
/// snapshot.
fn manifests() -> io::Result<()> {
    let folder = std::env::temp_dir().join(format!("lmc-seeds-{}", std::process::id()));
    let made = history(&folder);
    fs::remove_dir_all(&folder)?;
    made
}

fn history(folder: &Path) -> io::Result<()> {
    let root = folder.join("root");
    fs::create_dir_all(root.join("deep/er"))?;
    let storage = std::sync::Arc::new(MemoryStorage::default());
    let store = Store::init(storage.clone(), std::sync::Arc::new(SystemClock));
    let store = store.expect("memory is a store");
    let mut random = Random::new(4);
    let mut weights = data::words(Kind::Weights, 2, true, 6000, 1);
    let save = |path: &Path, name: String, pack_len: usize| -> io::Result<()> {
        let meta = [("loss".to_string(), "0.1\n\u{fc}".to_string())].into();
        let options = SaveOptions { pack_len, meta, ..SaveOptions::default() };
        let saved = store.save(path, &options).expect("a save");
        let object = saved.name.object().expect("a name");
        put("manifest_parse", &name, &[&storage.read_all(&object, 1 << 20).expect("it is there")])
    };
    save(&root, "empty".into(), 1000)?;
    for step in 0..6 {
        for _ in 0..100 {
            let at = random.below(weights.len());
            weights[at] ^= 1;
        }
        fs::write(root.join("deep/er/model.bin"), &weights)?;
        fs::write(root.join("copy.bin"), &weights)?;
        fs::write(root.join(format!("own{step}.txt")), random.bytes(step * 20))?;
        fs::write(root.join(OsStr::from_bytes(b"\xff\xfe.optim")), [step as u8; 30])?;
        if step == 2 {
            symlink("deep/er", root.join("link"))?;
            symlink(OsStr::from_bytes(b"\xff"), root.join("odd"))?;
        }
        save(&root, format!("step-{step}"), 500 + step * 700)?;
    }
    save(&root.join("copy.bin"), "file".into(), 100)
}

fn main() -> io::Result<()> {
    planes()?;
    on_bases()?;
    palettes()?;
    texts()?;
    blocks()?;
    files()?;
    manifests()?;
    hand_made()
}
