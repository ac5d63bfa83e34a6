//! Headers are taken and refused as the library of the format does it, and say the same.

use lmc_format::Dtype;
use lmc_input::TensorInfo;
use proptest::prelude::*;
use safetensors::tensor::Metadata;

/// What the library reads from a file of `data_len` bytes behind this header.
fn expected(json: &[u8], data_len: u64) -> Option<Vec<TensorInfo>> {
    let metadata: Metadata = serde_json::from_slice(json).ok()?;
    let header_len = json.len() as u64 + 8;
    let mut tensors = Vec::new();
    for (name, info) in metadata.tensors() {
        let dtype = Dtype::from_safetensors(&info.dtype.to_string())?;
        let shape = info.shape.iter().map(|&n| n as u64).collect();
        let (start, end) = info.data_offsets;
        let range = header_len + start as u64..header_len + end as u64;
        tensors.push(TensorInfo { name, dtype, shape, range });
    }
    let place = |t: &TensorInfo| (t.range.start, t.range.end, t.name.clone());
    tensors.sort_by_key(place);
    (metadata.data_len() as u64 == data_len).then_some(tensors)
}

/// Fails unless both agree; gives whether they took it.
fn compare(json: &[u8], data_len: u64) -> bool {
    let header = [&(json.len() as u64).to_le_bytes(), json].concat();
    let file_len = header.len() as u64 + data_len;
    let found = lmc_input::tensors(&header, file_len);
    let text = String::from_utf8_lossy(json);
    assert_eq!(found, expected(json, data_len), "{text}, {data_len} bytes");
    let items = lmc_input::parse(&header, file_len).map(|source| source.items);
    let lens = items.map(|items| items.iter().skip(1).map(|item| item.len).collect::<Vec<_>>());
    let expected = found
        .as_ref()
        .map(|tensors| tensors.iter().map(|t| t.range.end - t.range.start).collect::<Vec<_>>());
    assert_eq!(lens, expected, "{text}");
    found.is_some()
}

/// JSON that may stand where a field is unknown, and some that may not.
const VALUES: [&str; 16] = [
    "null",
    "true",
    "-5",
    "1.5e3",
    "1e999",
    "18446744073709551616",
    r#""text""#,
    r#""\ud83d\ude00""#,
    r#""\ud83d""#,
    r#""\x""#,
    "\"\u{1}\"",
    "[]",
    r#"[1,{"a":[{}]}]"#,
    r#"{"a":1,"a":2}"#,
    "[1,]",
    "{1:2}",
];

/// Every way to write a field that the library takes by accident, and its near misses.
#[test]
fn odd_forms() {
    let mut taken = 0;
    let mut check = |json: &str, data_len| taken += usize::from(compare(json.as_bytes(), data_len));
    let info = |fields: &str| format!(r#"{{"a":{{{fields}}}}}"#);
    let u8x4 = r#""dtype":"U8","shape":[4],"data_offsets":[0,4]"#;
    for value in VALUES {
        check(&info(&format!(r#"{u8x4},"x":{value}"#)), 4);
        check(&format!(r#"{{"__metadata__":{value}}}"#), 0);
        check(&format!(r#"{{"__metadata__":{{"k":{value}}}}}"#), 0);
        check(&format!(r#"{{"a":{value}}}"#), 0);
        check(&info(&format!(r#""dtype":{value},"shape":[],"data_offsets":[0,1]"#)), 1);
        check(&info(&format!(r#""dtype":"U8","shape":{value},"data_offsets":[0,1]"#)), 1);
        check(&info(&format!(r#""dtype":"U8","shape":[],"data_offsets":{value}"#)), 1);
    }
    for dtype in [r#"{"U8":null}"#, r#"{"U8":{}}"#, r#"{"U8":null,"U8":null}"#, "{}", "0", "[]"] {
        check(&info(&format!(r#""dtype":{dtype},"shape":[],"data_offsets":[0,1]"#)), 1);
    }
    for array in [r#"["U8",[],[0,1]]"#, r#"["U8",[],[0,1],0]"#, r#"["U8",[]]"#, "[]"] {
        check(&format!(r#"{{"a":{array}}}"#), 1);
    }
    for offsets in ["[0]", "[0,1,1]", "[0,-1]", "[0,1.0]", "[-0,1]", "[1,0]", "{}"] {
        check(&info(&format!(r#""dtype":"U8","shape":[],"data_offsets":{offsets}"#)), 1);
    }
    for shape in ["9223372036854775808,4,0", "18446744073709551615,0", "0,9223372036854775808,4"] {
        check(&info(&format!(r#""dtype":"F4","shape":[{shape}],"data_offsets":[0,0]"#)), 0);
    }
    for depth in [125, 126, 127, 128, 1000] {
        let nested = "[".repeat(depth) + &"]".repeat(depth);
        check(&info(&format!(r#"{u8x4},"x":{nested}"#)), 4);
    }
    let twice = format!(r#"{{"a":["U8",[9],[3,5]],"a":{{{u8x4}}}}}"#);
    check(&twice, 4);
    check(&twice.replace("[9]", "{}"), 4);
    check(&format!(r#"{{"a":{{{u8x4}}},"\u0061":["U8",[1],[0,1]]}}"#), 1);
    check(r#"{"__metadata__":null,"\u005f_metadata__":{}}"#, 0);
    check(&info(&format!(r#"{u8x4},"dtype":"U8""#)), 4);
    check(&format!("{{\"a\":{{{u8x4}}}}} \n"), 4);
    check(&format!("{{\"a\":{{{u8x4}}}}}x"), 4);
    check("{}", 0);
    check("{}", 1);
    compare(b"{\"a\xff\":[\"U8\",[],[0,1]]}", 1);
    assert_eq!(taken, 23, "forms that are taken");
}

/// Names that both know, with the bits of a value. Kept by hand, so that it depends on neither.
const KNOWN: &[(&str, u64)] = &[
    ("BOOL", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("U8", 8),
    ("I8", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2FNUZ", 8),
    ("I16", 16),
    ("U16", 16),
    ("F16", 16),
    ("BF16", 16),
    ("I32", 32),
    ("U32", 32),
    ("F32", 32),
    ("C64", 64),
    ("F64", 64),
    ("I64", 64),
    ("U64", 64),
];

/// Names that neither knows.
const UNKNOWN: &[(&str, u64)] = &[("F8_E3M4", 8), ("bf16", 16)];

/// Every type of ours that has a name in safetensors is compared.
#[test]
fn no_dtype_is_left_out() {
    let ours = Dtype::ALL.into_iter().filter_map(|d| Some((d.in_safetensors()?, d.bits())));
    for row in ours {
        assert!(KNOWN.contains(&row), "{row:?}");
    }
}

#[derive(Clone, Debug)]
struct Plan {
    name: u8,
    /// Its name, and the bits of a value.
    dtype: (&'static str, u64),
    shape: Vec<u64>,
    /// Added to the offsets.
    slip: (i64, i64),
    is_array: bool,
    extra: Option<usize>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let dim = prop_oneof![20 => 0..9_u64, 1 => Just(1 << 31), 1 => Just(1 << 63)];
    let slip = prop_oneof![30 => Just(0_i64), 1 => -9..9_i64];
    (
        prop_oneof![20 => 0..=255_u8, 1 => 0..4_u8],
        prop_oneof![60 => prop::sample::select(KNOWN), 1 => prop::sample::select(UNKNOWN)],
        proptest::collection::vec(dim, 0..4),
        (slip.clone(), slip),
        proptest::bool::weighted(0.1),
        proptest::option::weighted(0.1, 0..VALUES.len()),
    )
        .prop_map(|(name, dtype, shape, slip, is_array, extra)| Plan {
            name,
            dtype,
            shape,
            slip,
            is_array,
            extra,
        })
}

/// The JSON of these tensors, back to back but for their slips, and the length of their bytes.
fn header(plans: &[Plan], rotate: usize) -> (String, u64) {
    let mut at = 0_u64;
    let mut entries = Vec::new();
    for plan in plans {
        let (dtype, bits) = plan.dtype;
        let count = plan.shape.iter().fold(1_u64, |count, &dim| count.saturating_mul(dim));
        let end = at.saturating_add(count.saturating_mul(bits) / 8);
        let (from, to) =
            (at.saturating_add_signed(plan.slip.0), end.saturating_add_signed(plan.slip.1));
        let (shape, name) = (&plan.shape, plan.name);
        entries.push(if plan.is_array {
            format!(r#""{name}":["{dtype}",{shape:?},[{from},{to}]]"#)
        } else {
            let extra = plan.extra.map_or_else(String::new, |i| format!(r#""x":{},"#, VALUES[i]));
            let offsets = format!(r#""data_offsets":[{from},{to}]"#);
            format!(r#""{name}":{{"shape":{shape:?},{extra}{offsets},"dtype":"{dtype}"}}"#)
        });
        at = end;
    }
    let middle = rotate % entries.len().max(1);
    entries.rotate_left(middle);
    (format!("{{{}}}", entries.join(", ")), at)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Made-up headers, with a mistake here and there, and then with one byte changed.
    #[test]
    fn made_up_headers(
        plans in proptest::collection::vec(plan(), 0..6),
        rotate in 0..6_usize,
        change in (any::<prop::sample::Index>(), any::<u8>()),
    ) {
        let (json, data_len) = header(&plans, rotate);
        let mut json = json.into_bytes();
        compare(&json, data_len);
        compare(&json, data_len.wrapping_add(1) % (1 << 40));
        let place = change.0.index(json.len());
        json[place] = change.1;
        compare(&json, data_len % (1 << 40));
    }
}
