//! The contents of a file of torch.distributed.checkpoint: for each tensor or object a zip file of
//! torch.save, one after the other. Their names are in another file.

use crate::contents::{Contents, Format};
use crate::dcp_metadata::DcpItem;
use crate::source::{ReadAt, Source};
use crate::torch;
use crate::torch_state::{Extra, LISTING_MAX};
use crate::zip::Zip;
use std::collections::HashMap;
use std::io;
use std::ops::Range;

/// The most zip files in a file.
const ITEMS_MAX: usize = 1 << 18;

/// Looks for the contents of a file of torch.distributed.checkpoint with `len` bytes, whose parts
/// are named by `items`. Any other file is one of unknown format here. An error is one of `read`.
pub fn dcp_contents(read: &ReadAt, len: u64, items: &[DcpItem]) -> io::Result<Contents> {
    let source = Source::new(read, len);
    let mut found = find(&source, items).unwrap_or_else(Contents::unknown);
    found.tidy(len);
    source.finish(found)
}

/// The same, without the last touches; None if it is another file. Parts that have no name are
/// called by number.
pub(crate) fn find(source: &Source, items: &[DcpItem]) -> Option<Contents> {
    let names: HashMap<(u64, u64), String> =
        items.iter().map(|item| ((item.offset, item.len), item.name())).collect();
    let mut found = Contents::new(Format::Dcp);
    let mut listing_left = LISTING_MAX;
    for (i, place) in places(source)?.into_iter().enumerate() {
        let part = source.part(place.clone())?;
        let zip = Zip::read(&part)?;
        let number = || format!("item {i}");
        let name = names.get(&(place.start, place.end - place.start)).cloned();
        let name = name.unwrap_or_else(number);
        match torch::find(&part, &zip, Extra::OF_MANY) {
            Some(contents) => {
                let cost = contents.listing_len(name.len());
                let Some(left) = listing_left.checked_sub(cost) else {
                    found.miss("has more or longer paths to its tensors than are followed");
                    break;
                };
                listing_left = left;
                found.add_part(contents, place.start, &name);
            }
            None => found.miss(format!("has a part, {name}, that is not of torch.save")),
        }
    }
    Some(found)
}

/// The places of the zip files that make up a file. They are looked for from the end: only the end
/// of each says how long it is.
fn places(source: &Source) -> Option<Vec<Range<u64>>> {
    let mut places = Vec::new();
    let mut end = source.len();
    while end > 0 {
        let start = Zip::start_before(source, end)?;
        if places.len() == ITEMS_MAX {
            return None;
        }
        places.push(start..end);
        end = start;
    }
    places.reverse();
    (!places.is_empty()).then_some(places)
}
