//! A tree table, ready for both directions.

use lmc_format::TreeTable;
use lmc_format::limits::HUFFMAN_BITS_MAX;
use std::ops::Range;

/// The largest number of nodes with a stream, which is all but single symbols. The worst case is 15
/// or 31 symbols of each of the 12 lengths, and the escape: 53 blocks, under 52 other nodes.
pub(super) const NODES_MAX: usize = 105;

/// A tree table, ready for both directions.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The rank of each byte. Bytes without a code have that of the escape, or the highest.
    pub(super) ranks: [u8; 256],
    /// The rank of bytes without a code; None if all have one.
    pub(super) absent: Option<u8>,
    pub(super) has_escape: bool,
    /// Breadth first.
    pub(super) nodes: Vec<Node>,
    /// The nodes of each level.
    pub(super) levels: Vec<Range<usize>>,
}

/// A node with its own stream.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Split(Split),
    Flat(Box<Flat>),
    Escape,
}

/// A node of several blocks.
#[derive(Clone, Debug)]
pub(super) struct Split {
    /// The first rank on the right.
    pub first: u8,
    pub left: Child,
    pub right: Child,
}

/// A block of two symbols or more.
#[derive(Clone, Debug)]
pub(super) struct Flat {
    pub first: u8,
    pub bits: u8,
    /// The symbols of its ranks, then zeros.
    pub symbols: [u8; 256],
}

/// One side of a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Child {
    /// A block of one symbol.
    Symbol(u8),
    /// The number of a node.
    Node(usize),
}

impl Node {
    /// Bits in the node's stream for each byte that reaches it.
    pub(super) fn bits(&self) -> usize {
        match self {
            Self::Split(_) => 1,
            Self::Flat(flat) => usize::from(flat.bits),
            Self::Escape => 8,
        }
    }
}

/// Symbols with codes of the same length, a power of two of them, or the escape.
#[derive(Debug)]
struct SymbolBlock {
    /// Bits of the code before those that tell the symbols apart.
    depth: u8,
    /// The code length.
    length: u8,
    symbols: Vec<u8>,
    is_escape: bool,
}

/// A tree's blocks, from left to right.
fn blocks(table: &TreeTable) -> Vec<SymbolBlock> {
    let mut by_length = [const { Vec::new() }; HUFFMAN_BITS_MAX as usize + 1];
    for (&length, symbol) in table.lengths().iter().zip(0..=255) {
        by_length[usize::from(length)].push(symbol);
    }
    let mut blocks = Vec::new();
    for (length, mut symbols) in (0..).zip(by_length).skip(1) {
        while !symbols.is_empty() {
            let bits = symbols.len().ilog2();
            let others = symbols.split_off(1 << bits);
            let depth = length - bits as u8;
            blocks.push(SymbolBlock { depth, length, symbols, is_escape: false });
            symbols = others;
        }
    }
    if table.escape() > 0 {
        let (depth, length) = (table.escape(), table.escape());
        blocks.push(SymbolBlock { depth, length, symbols: Vec::new(), is_escape: true });
    }
    blocks.sort_by_key(|block| (block.depth, block.length, block.is_escape));
    blocks
}

impl Tables {
    /// Prepares `table`.
    pub fn new(table: &TreeTable) -> Self {
        let blocks = blocks(table);
        // The rank of each block's first symbol; the escape has one too.
        let mut starts = vec![0];
        let mut escape = None;
        for block in &blocks {
            let start = starts[starts.len() - 1];
            escape = escape.or(block.is_escape.then_some(start as u8));
            starts.push(start + block.symbols.len().max(1));
        }
        let absent = escape.or((starts[blocks.len()] < 256).then_some(255));
        let mut ranks = [absent.unwrap_or(0); 256];
        for (block, &start) in blocks.iter().zip(&starts) {
            for (&symbol, rank) in block.symbols.iter().zip(start..) {
                ranks[usize::from(symbol)] = rank as u8;
            }
        }
        let (mut nodes, mut levels) = (Vec::new(), Vec::new());
        let mut level: Vec<Range<usize>> = std::iter::once(0..blocks.len()).collect();
        for depth in 0.. {
            let first = nodes.len();
            let next_first = first + level.len();
            let mut next = Vec::new();
            for range in level {
                nodes.push(node(&blocks, &starts, range, depth, next_first, &mut next));
            }
            levels.push(first..nodes.len());
            if next.is_empty() {
                break;
            }
            level = next;
        }
        assert!(nodes.len() <= NODES_MAX, "a code has at most 53 blocks");
        Self { ranks, absent, has_escape: escape.is_some(), nodes, levels }
    }
}

/// The node of a range of blocks at a depth. Children that are nodes are appended to `next`, the
/// nodes of the next level, which are numbered from `next_first` on.
fn node(
    blocks: &[SymbolBlock],
    starts: &[usize],
    range: Range<usize>,
    depth: u8,
    next_first: usize,
    next: &mut Vec<Range<usize>>,
) -> Node {
    match &blocks[range.clone()] {
        [SymbolBlock { is_escape: true, .. }] => return Node::Escape,
        [block] => {
            let (first, bits) = (starts[range.start] as u8, block.length - block.depth);
            let mut symbols = [0; 256];
            symbols[..block.symbols.len()].copy_from_slice(&block.symbols);
            return Node::Flat(Box::new(Flat { first, bits, symbols }));
        }
        _ => {}
    }
    // Half of the places below the node are on the left. Blocks are sorted by depth, so one block
    // ends exactly there.
    let half = 1_u32 << (HUFFMAN_BITS_MAX - depth - 1);
    let mut places = 0;
    let on_left = blocks[range.clone()].iter().take_while(|block| {
        places += 1 << (HUFFMAN_BITS_MAX - block.depth);
        places <= half
    });
    let middle = range.start + on_left.count();
    let mut child = |range: Range<usize>| match &blocks[range.clone()] {
        [SymbolBlock { symbols, .. }] if symbols.len() == 1 => Child::Symbol(symbols[0]),
        _ => {
            next.push(range);
            Child::Node(next_first + next.len() - 1)
        }
    };
    let (left, right) = (child(range.start..middle), child(middle..range.end));
    Node::Split(Split { first: starts[middle] as u8, left, right })
}
