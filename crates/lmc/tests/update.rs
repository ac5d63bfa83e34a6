//! A file is restored into the memory of its base, however that memory is cut and whatever is coded
//! against bytes that are overwritten.

use crate::common::{
    GoldenDelta, bases, compress_on, few_moved, golden_deltas, moved, nudged, safetensors,
};
use lmc::{Archive, Context, Level, Site, Update};
use lmc_testkit::data::{self, Kind, Random};

const LEVELS: [Level; 2] = [Level::Fast, Level::Default];

/// Cuts `len` bytes into sites: those that `is_held` says hold the base from the same place on, as
/// far as it goes.
fn cut(len: usize, base_len: usize, seed: u64, is_held: fn(&mut Random) -> bool) -> Vec<Site> {
    let (mut random, mut at, mut sites) = (Random::new(seed), 0, Vec::new());
    while at < len {
        let most = 1 + random.below(len);
        let end = len.min(at + random.below(most));
        let (len, base_start) = ((end - at) as u64, at as u64);
        sites.push(match is_held(&mut random) && end <= base_len {
            true => Site::Held { len, base_start },
            false => Site::New { len },
        });
        at = end;
    }
    sites
}

/// Restores `new` into memory that holds parts of `old`, as the sites say. New memory is whole
/// before anything of `old` is overwritten.
fn restore(archive: &Archive, old: &[u8], new: &[u8], sites: &[Site], threads: usize) -> Vec<u8> {
    let memory = |site: &Site| match *site {
        Site::Held { len, base_start } => old[base_start as usize..][..len as usize].to_vec(),
        Site::New { len } => vec![0; len as usize],
    };
    let mut places: Vec<Vec<u8>> = sites.iter().map(memory).collect();
    let before = places.clone();
    let is_new = |(_, site): &(_, &Site)| matches!(site, Site::New { .. });
    let new_places = places.iter_mut().zip(sites).filter(is_new).map(|(place, _)| &mut place[..]);
    let update =
        Update::prepare(archive, sites, new_places.collect(), &Context::with_threads(threads))
            .expect("prepared");
    let is_held = |i: usize| matches!(sites[i], Site::Held { .. });
    let mut rest = new;
    for (i, place) in places.iter().enumerate() {
        let (own, after) = rest.split_at(place.len());
        assert!(place == if is_held(i) { &before[i][..] } else { own });
        rest = after;
    }
    let all = places.iter_mut().map(|place| &mut place[..]).collect();
    update.finish(all, &Context::with_threads(threads)).expect("restored");
    places.concat()
}

fn check(old: &[u8], new: &[u8], level: Level) {
    let on = bases(&[("old", old)]);
    let archive = Archive::from_bytes_on(compress_on(new, &on, level, 2), &on).expect("a file");
    let held: [fn(&mut Random) -> bool; 3] = [|_| true, |_| false, |random| random.below(2) == 0];
    for (seed, is_held) in (1..4).flat_map(|seed| held.map(|is_held| (seed, is_held))) {
        let sites = cut(new.len(), old.len(), seed, is_held);
        assert!(
            restore(&archive, old, new, &sites, 1 + seed as usize % 3) == new,
            "{level:?} {seed}"
        );
    }
}

/// Tensors that are converted, moved, copied within the file or coded on others come out right
/// wherever they go.
#[test]
fn what_is_overwritten_is_decoded_from_before() {
    // Tensors that are between other bytes are not restored in place.
    let is_whole = |delta: &GoldenDelta| !delta.bases.is_empty() && delta.name != "delta_npz";
    for delta in golden_deltas().into_iter().filter(is_whole) {
        check(&delta.bases[0].1, &delta.original, delta.level);
    }
}

/// Blocks that are longer than the part of a base that is kept aside, with few, many and no
/// changes.
#[test]
fn long_blocks_are_replaced_in_pieces() {
    let old = data::words(Kind::Weights, 2, true, 2_500_000, 3);
    let file = |bytes: Vec<u8>| safetensors(&[("w".into(), "BF16", vec![2_500_000], bytes)], "");
    for new in [
        nudged(&old, 2, 300, 4),
        few_moved(&old, 2, 4, 5),
        moved(&old, 2, 12, 6),
        old.clone(),
        data::words(Kind::Weights, 2, true, 2_500_000, 7),
    ] {
        LEVELS.into_iter().for_each(|level| check(&file(old.clone()), &file(new.clone()), level));
    }
}

/// Damage in the file, and sites of another length than the original, are errors before anything is
/// written.
#[test]
fn what_is_wrong_is_found_before_the_base_is_overwritten() {
    let old = data::words(Kind::Weights, 4, true, 100_000, 8);
    let new = few_moved(&old, 4, 1 << 17, 9);
    let on = bases(&[("old", &old)]);
    let coded = compress_on(&new, &on, Level::Default, 1);
    let len = new.len() as u64;
    let prepare = |coded: &[u8], len: u64| {
        let archive = Archive::from_bytes_on(coded.to_vec(), &on)?;
        Update::prepare(
            &archive,
            &[Site::Held { len, base_start: 0 }],
            Vec::new(),
            &Context::with_threads(2),
        )
        .map(|_| ())
    };
    prepare(&coded, len).expect("a file that is whole");
    assert!(prepare(&coded, len - 1).is_err());
    for at in (0..coded.len()).step_by(501) {
        let mut coded = coded.clone();
        coded[at] ^= 1;
        assert!(prepare(&coded, len).is_err(), "byte {at}");
    }
}
