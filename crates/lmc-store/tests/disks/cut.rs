//! What may be on a disk after a power cut.

use super::Random;
use super::crash::{Node, Past, State};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// What happens to changes that are not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All are there: as if the process had been killed.
    All,
    /// None is.
    None,
    /// Names are, bytes are not: files are empty, or have zeros in them.
    NamesOnly,
    /// Bytes are, names are not.
    BytesOnly,
    /// Names up to some change, as a journal would have it; of each file what chance leaves.
    Journal,
    /// Each name at any of its values, each file what chance leaves.
    Any,
    /// One name alone is at its last value.
    OneName,
    /// One name alone is at its durable value.
    AllButOneName,
}

impl Cut {
    pub const ALL: [Self; 8] = [
        Self::All,
        Self::None,
        Self::NamesOnly,
        Self::BytesOnly,
        Self::Journal,
        Self::Any,
        Self::OneName,
        Self::AllButOneName,
    ];

    /// What may be left of `state`: nothing in it is unsynced.
    pub fn image(self, state: &State, random: &mut Random) -> State {
        let pasts: Vec<&Past> = state
            .nodes
            .iter()
            .filter_map(|node| match node {
                Node::Dir { past, .. } => Some(past.values()),
                Node::File { .. } => None,
            })
            .flatten()
            .collect();
        // The changes that may be missing, for a journal to end at one of them.
        let mut changes: Vec<u64> =
            pasts.iter().flat_map(|past| past.iter().map(|(change, _)| *change)).collect();
        changes.sort_unstable();
        changes.dedup();
        let journal_end = changes.get(random.below(changes.len())).copied().unwrap_or(0);
        let chosen = random.below(pasts.len());
        let mut number = 0;
        let mut image = State { nodes: Vec::new(), changes: 0 };
        for node in &state.nodes {
            image.nodes.push(match node {
                Node::Dir { names, past } => {
                    let mut names = names.clone();
                    for (name, past) in past {
                        let value = self.value(past, number == chosen, journal_end, random);
                        number += 1;
                        match value {
                            Some(node) => names.insert(name.clone(), node),
                            None => names.remove(name),
                        };
                    }
                    Node::Dir { names, past: BTreeMap::new() }
                }
                Node::File { .. } => self.file(node, random),
            });
        }
        image
    }

    fn value(self, past: &Past, is_chosen: bool, end: u64, random: &mut Random) -> Option<usize> {
        let (first, last) = (past[0].1, past[past.len() - 1].1);
        match self {
            Self::All | Self::NamesOnly => last,
            Self::None | Self::BytesOnly => first,
            Self::Journal => past.iter().rfind(|(change, _)| *change <= end).expect("the first").1,
            Self::Any => past[random.below(past.len())].1,
            Self::OneName => {
                if is_chosen {
                    last
                } else {
                    first
                }
            }
            Self::AllButOneName => {
                if is_chosen {
                    first
                } else {
                    last
                }
            }
        }
    }

    fn file(self, node: &Node, random: &mut Random) -> Node {
        let Node::File { data, synced_len, is_lost, modified_ms } = node else { panic!("no file") };
        let (durable, rest) = data.split_at(*synced_len);
        let left = match self {
            _ if rest.is_empty() => Vec::new(),
            Self::All | Self::BytesOnly if !is_lost => rest.to_vec(),
            Self::None => Vec::new(),
            _ => tear(rest, *is_lost, random),
        };
        let data = Arc::new([durable, &left].concat());
        let synced_len = data.len();
        Node::File { data, synced_len, is_lost: false, modified_ms: *modified_ms }
    }
}

/// What may be left of bytes that were not synced.
fn tear(bytes: &[u8], is_lost: bool, random: &mut Random) -> Vec<u8> {
    match random.below(4) {
        0 if !is_lost => bytes.to_vec(),
        // The end is missing, at the end of a sector.
        1 if !is_lost => {
            let sectors = random.below(bytes.len().div_ceil(SECTOR));
            bytes[..sectors * SECTOR].to_vec()
        }
        // The length is there; of the sectors some are, others are zeros or what was there before.
        2 => {
            let mut torn = bytes.to_vec();
            for sector in torn.chunks_mut(SECTOR) {
                match random.below(3) {
                    0 if !is_lost => {}
                    1 => sector.fill(0xa5),
                    _ => sector.fill(0),
                }
            }
            torn
        }
        _ => Vec::new(),
    }
}

/// What tells an image from another one. Temporary files do not: nobody reads them.
pub fn fingerprint(image: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash(image, 0, 0, &mut hasher);
    hasher.finish()
}

fn hash(image: &State, node: usize, depth: usize, hasher: &mut DefaultHasher) {
    match &image.nodes[node] {
        Node::File { data, .. } => data.hash(hasher),
        Node::Dir { names, .. } => {
            names.len().hash(hasher);
            for (name, &node) in names.iter().filter(|(name, _)| depth != 1 || *name != "tmp") {
                name.hash(hasher);
                hash(image, node, depth + 1, hasher);
            }
        }
    }
}
