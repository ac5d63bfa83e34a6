//! Metadata like that of torch.distributed.checkpoint, made by hand.

use crate::torch_made::text;

/// An object of a class with these attributes.
fn object(class: &str, attributes: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = format!("cm\n{class}\n)\x00}}(").into_bytes();
    let at = bytes.iter().position(|&b| b == 0).expect("a place");
    bytes[at] = 0x81;
    for (name, value) in attributes {
        bytes.extend([&text(name)[..], value].concat());
    }
    bytes.extend(b"ub");
    bytes
}

/// A number of 31 bits.
fn int(n: u64) -> Vec<u8> {
    [b"J", &(n as u32).to_le_bytes()[..]].concat()
}

/// A part: name, place in the tensor, path, offset and length.
pub type Part<'a> = (&'a str, Option<&'a [u64]>, &'a str, u64, u64);

/// Metadata with these parts.
pub fn metadata(parts: &[Part]) -> Vec<u8> {
    let mut storage_data = b"}(".to_vec();
    for &(fqn, place, path, offset, len) in parts {
        let place = place.map_or(b"N".to_vec(), |place| {
            let dims: Vec<u8> = place.iter().flat_map(|&dim| int(dim)).collect();
            [b"ctorch\nSize\n((", &dims[..], b"ttR"].concat()
        });
        let index = [("fqn", text(fqn)), ("offset", place), ("index", b"N".to_vec())];
        let info = [("relative_path", text(path)), ("offset", int(offset)), ("length", int(len))];
        storage_data.extend(object("MetadataIndex", &index));
        storage_data.extend(object("_StorageInfo", &info));
    }
    storage_data.push(b'u');
    let root = [("state_dict_metadata", b"}".to_vec()), ("storage_data", storage_data)];
    [b"\x80\x02", &object("Metadata", &root)[..], b"."].concat()
}
