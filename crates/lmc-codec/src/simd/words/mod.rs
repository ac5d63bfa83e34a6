//! Words to planes and back: the field split of `docs/format.md`, sections 3.1 and 3.2.
//!
//! The functions on whole words (`extract8`, `extract16`, `deposit8`, ...) are plain loops that the
//! compiler turns into vector code once for each instruction set. Only the two splits that most
//! tensors use are written by hand: 16-bit and 32-bit words with their top byte separate.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod staged;
mod top;
#[cfg(target_arch = "x86_64")]
mod writer;

pub(crate) use top::{TopMerge, merge_top, split_top};
#[cfg(target_arch = "x86_64")]
pub(super) use {avx2::split_group, staged::StagedWriter, writer::VectorWriter};

use super::{Isa, IsaKind};
use lmc_format::WordMap;
use top::aligned_after;

/// Defines a function with one body, compiled for every instruction set, that runs the version of
/// its `isa`.
macro_rules! per_isa {
    (
        $(#[$doc:meta])*
        $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
    ) => {
        $(#[$doc])*
        $vis fn $name(isa: $crate::simd::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn plain($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
            fn avx2($($arg: $ty),*) $(-> $ret)? { plain($($arg),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")]
            #[target_feature(enable = "bmi1,bmi2,popcnt,lzcnt")]
            fn avx512($($arg: $ty),*) $(-> $ret)? { plain($($arg),*) }
            match isa.kind() {
                $crate::simd::IsaKind::Portable => plain($($arg),*),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the isa proves that the CPU has these instructions.
                $crate::simd::IsaKind::Avx2 => unsafe { avx2($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the isa proves that the CPU has these instructions.
                $crate::simd::IsaKind::Avx512 => unsafe { avx512($($arg),*) },
                #[cfg(not(target_arch = "x86_64"))]
                _ => plain($($arg),*),
            }
        }
    };
}
pub(super) use per_isa;

/// The kind of words: their width in bytes (1, 2, 4 or 8) and their map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// log2 of the width in bytes.
    pub width_log2: u8,
    /// Applied before a word is cut.
    pub map: WordMap,
}

/// A little-endian word of 1, 2, 4 or 8 bytes.
trait Word: Copy {
    type Bytes: Copy;
    fn from_bytes(bytes: Self::Bytes) -> Self;
    fn to_bytes(self) -> Self::Bytes;
    fn chunks(bytes: &[u8]) -> &[Self::Bytes];
    fn chunks_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];
    fn shr(self, by: u32) -> u16;
    fn with(self, part: u16, by: u32) -> Self;
    fn rotate(self) -> Self;
    fn unrotate(self) -> Self;
    fn zigzag(self) -> Self;
    fn unzigzag(self) -> Self;
}

macro_rules! word {
    ($unsigned:ty, $signed:ty, $len:literal) => {
        impl Word for $unsigned {
            type Bytes = [u8; $len];
            #[inline(always)]
            fn from_bytes(bytes: [u8; $len]) -> Self {
                Self::from_le_bytes(bytes)
            }
            #[inline(always)]
            fn to_bytes(self) -> [u8; $len] {
                self.to_le_bytes()
            }
            #[inline(always)]
            fn chunks(bytes: &[u8]) -> &[[u8; $len]] {
                bytes.as_chunks().0
            }
            #[inline(always)]
            fn chunks_mut(bytes: &mut [u8]) -> &mut [[u8; $len]] {
                bytes.as_chunks_mut().0
            }
            #[inline(always)]
            fn shr(self, by: u32) -> u16 {
                (self >> by) as u16
            }
            #[inline(always)]
            fn with(self, part: u16, by: u32) -> Self {
                self | (part as $unsigned) << by
            }
            #[inline(always)]
            fn rotate(self) -> Self {
                self.rotate_left(1)
            }
            #[inline(always)]
            fn unrotate(self) -> Self {
                self.rotate_right(1)
            }
            #[inline(always)]
            fn zigzag(self) -> Self {
                (self << 1) ^ ((self as $signed) >> (Self::BITS - 1)) as $unsigned
            }
            #[inline(always)]
            fn unzigzag(self) -> Self {
                (self >> 1) ^ (self & 1).wrapping_neg()
            }
        }
    };
}
word!(u8, i8, 1);
word!(u16, i16, 2);
word!(u32, i32, 4);
word!(u64, i64, 8);

/// Calls `$run::<word type>(...)` for the width, with the map's function as the last argument.
macro_rules! for_width {
    ($words:expr, $run:ident($($arg:expr),*), $none:expr, $rotate:ident, $zigzag:ident) => {
        match $words.width_log2 {
            0 => for_map!(u8, $words, $run($($arg),*), $none, $rotate, $zigzag),
            1 => for_map!(u16, $words, $run($($arg),*), $none, $rotate, $zigzag),
            2 => for_map!(u32, $words, $run($($arg),*), $none, $rotate, $zigzag),
            _ => for_map!(u64, $words, $run($($arg),*), $none, $rotate, $zigzag),
        }
    };
}
macro_rules! for_map {
    (
        $word:ty, $words:expr, $run:ident($($arg:expr),*), $none:expr, $rotate:ident, $zigzag:ident
    ) => {
        match $words.map {
            WordMap::None => $run::<$word>($($arg),*, $none),
            WordMap::Rotate => $run::<$word>($($arg),*, <$word as Word>::$rotate),
            WordMap::Zigzag => $run::<$word>($($arg),*, <$word as Word>::$zigzag),
        }
    };
}

per_isa! {
    /// `dst[i]` = the low 8 bits of (mapped word `i` >> `shift`), masked by `mask`.
    pub(crate) fn extract8(words: Words, src: &[u8], shift: u32, mask: u8, dst: &mut [u8]) {
        #[inline(always)]
        fn run<T: Word>(src: &[u8], shift: u32, mask: u8, dst: &mut [u8], map: impl Fn(T) -> T) {
            for (to, &word) in dst.iter_mut().zip(T::chunks(src)) {
                *to = map(T::from_bytes(word)).shr(shift) as u8 & mask;
            }
        }
        for_width!(words, run(src, shift, mask, dst), |w| w, rotate, zigzag)
    }
}

per_isa! {
    /// `dst[i]` = the low 16 bits of (mapped word `i` >> `shift`), masked by `mask`.
    pub(crate) fn extract16(words: Words, src: &[u8], shift: u32, mask: u16, dst: &mut [u16]) {
        #[inline(always)]
        fn run<T: Word>(src: &[u8], shift: u32, mask: u16, dst: &mut [u16], map: impl Fn(T) -> T) {
            for (to, &word) in dst.iter_mut().zip(T::chunks(src)) {
                *to = map(T::from_bytes(word)).shr(shift) & mask;
            }
        }
        for_width!(words, run(src, shift, mask, dst), |w| w, rotate, zigzag)
    }
}

/// How a wide split cuts words of 2 or 4 bytes: a symbol of more than 8 bits, then the partial
/// plane, then, in words of 4 bytes, a pair of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WideCut {
    /// The words.
    pub words: Words,
    /// Bits of the symbol, 9 to 15.
    pub symbol_bits: u8,
}

impl WideCut {
    #[inline(always)]
    fn partial_bits(self) -> u32 {
        16 - u32::from(self.symbol_bits)
    }
}

/// Cuts `src` into symbols and partial plane, and for words of 4 bytes appends the pairs to `out`.
/// With `streaming`, most pairs bypass the caches.
///
/// Panics unless all slices hold the same number of words.
pub(crate) fn split_wide(
    isa: Isa,
    cut: WideCut,
    src: &[u8],
    symbols: &mut [u16],
    partial: &mut [u8],
    out: &mut Vec<u8>,
    streaming: bool,
) {
    let n = symbols.len();
    let width = 1 << cut.words.width_log2;
    assert!(partial.len() == n && src.len() == n * width);
    let pairs_len = n * (width - 2);
    let start = out.len();
    out.reserve(pairs_len);
    let done = match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the isa proves AVX-512; the slices hold the same number of words, and `out` has
        // room for their pairs. The kernel has written the pairs of the first `done` words.
        IsaKind::Avx512 if width == 4 => unsafe {
            let pairs = out.as_mut_ptr().add(start);
            let done = avx512::split_wide4(cut, src, symbols, partial, pairs, streaming);
            out.set_len(start + 2 * done);
            done
        },
        _ => 0,
    };
    out.resize(start + pairs_len, 0);
    let pairs = &mut out[start + done * (width - 2)..];
    let (src, symbols, partial) =
        (&src[done * width..], &mut symbols[done..], &mut partial[done..]);
    split_wide_plain(isa, cut, src, symbols, partial, pairs);
}

per_isa! {
    fn split_wide_plain(
        cut: WideCut,
        src: &[u8],
        symbols: &mut [u16],
        partial: &mut [u8],
        pairs: &mut [u8],
    ) {
        #[inline(always)]
        fn cut_top(top: u16, cut: WideCut, symbol: &mut u16, partial: &mut u8) {
            *symbol = top >> cut.partial_bits();
            *partial = (top & ((1 << cut.partial_bits()) - 1)) as u8;
        }
        let rotated = cut.words.map == WordMap::Rotate;
        if cut.words.width_log2 == 1 {
            for ((&word, symbol), partial) in src.as_chunks().0.iter().zip(symbols).zip(partial) {
                let word = u16::from_le_bytes(word);
                let word = if rotated { word.rotate_left(1) } else { word };
                cut_top(word, cut, symbol, partial);
            }
        } else {
            let pairs = pairs.as_chunks_mut().0;
            let words = src.as_chunks().0.iter();
            for (((&word, symbol), partial), pair) in words.zip(symbols).zip(partial).zip(pairs) {
                let word = u32::from_le_bytes(word);
                let word = if rotated { word.rotate_left(1) } else { word };
                cut_top((word >> 16) as u16, cut, symbol, partial);
                *pair = (word as u16).to_le_bytes();
            }
        }
    }
}

/// Undoes [`split_wide`]. Symbols and partial bytes may have bits above their width, which are
/// ignored. With `streaming`, most words of 4 bytes bypass the caches.
///
/// Panics unless all slices hold the same number of words.
pub(crate) fn merge_wide(
    isa: Isa,
    cut: WideCut,
    symbols: &[u16],
    partial: &[u8],
    pairs: &[u8],
    dst: &mut [u8],
    streaming: bool,
) {
    let n = symbols.len();
    let width = 1 << cut.words.width_log2;
    assert!(partial.len() == n && dst.len() == n * width && pairs.len() == n * (width - 2));
    let (mut from, mut to) = (n, n);
    #[cfg(target_arch = "x86_64")]
    if isa.kind() == IsaKind::Avx512 && width == 4 && streaming {
        from = aligned_after(dst, width).min(n);
        let (symbols, partial) = (&symbols[from..], &partial[from..]);
        let (pairs, dst) = (&pairs[2 * from..], &mut dst[4 * from..]);
        // SAFETY: the isa proves AVX-512; the slices hold the same number of words, as was checked
        // above.
        to = from + unsafe { avx512::merge_wide4(cut, symbols, partial, pairs, dst) };
    }
    for range in [0..from, to..n] {
        let pairs = &pairs[range.start * (width - 2)..range.end * (width - 2)];
        let dst = &mut dst[range.start * width..range.end * width];
        merge_wide_plain(isa, cut, &symbols[range.clone()], &partial[range], pairs, dst);
    }
}

per_isa! {
    fn merge_wide_plain(
        cut: WideCut,
        symbols: &[u16],
        partial: &[u8],
        pairs: &[u8],
        dst: &mut [u8],
    ) {
        #[inline(always)]
        fn top(cut: WideCut, symbol: u16, partial: u8) -> u16 {
            (symbol << cut.partial_bits()) | u16::from(partial) & ((1 << cut.partial_bits()) - 1)
        }
        let rotated = cut.words.map == WordMap::Rotate;
        if cut.words.width_log2 == 1 {
            let words = dst.as_chunks_mut().0.iter_mut();
            for ((word, &symbol), &partial) in words.zip(symbols).zip(partial) {
                let whole = top(cut, symbol, partial);
                *word = if rotated { whole.rotate_right(1) } else { whole }.to_le_bytes();
            }
        } else {
            let pairs = pairs.as_chunks().0;
            let words = dst.as_chunks_mut().0.iter_mut();
            for (((word, &symbol), &partial), &pair) in words.zip(symbols).zip(partial).zip(pairs) {
                let low = u32::from(u16::from_le_bytes(pair));
                let whole = u32::from(top(cut, symbol, partial)) << 16 | low;
                *word = if rotated { whole.rotate_right(1) } else { whole }.to_le_bytes();
            }
        }
    }
}

/// One field of a word to compose: a plane and the position of its bits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WordField<'a> {
    /// One byte for each word; only the masked bits count.
    Bytes(&'a [u8], u8, u32),
    /// Two bytes for each word; only the masked bits count.
    Shorts(&'a [u16], u16, u32),
    /// `len` bytes for each word; only the masked bits of the one at `at` count.
    Record {
        /// The records.
        bytes: &'a [u8],
        /// Bytes of a record.
        len: usize,
        /// Which of these bytes is used.
        at: usize,
        /// Which of its bits count.
        mask: u8,
        /// Where they go.
        shift: u32,
    },

    /// The same byte for every word.
    Constant(u8, u32),
}

/// Composes the words of `dst` from `fields`, which cover their bits, and undoes the map.
pub(crate) fn compose(isa: Isa, words: Words, fields: &[WordField], dst: &mut [u8]) {
    dst.fill(0);
    for field in fields {
        match *field {
            WordField::Bytes(plane, mask, shift) => deposit8(isa, words, plane, mask, shift, dst),
            WordField::Shorts(plane, mask, shift) => deposit16(isa, words, plane, mask, shift, dst),
            WordField::Record { bytes, len, at, mask, shift } => {
                deposit_record(isa, words, bytes, (len, at), mask, shift, dst);
            }
            WordField::Constant(byte, shift) => deposit_constant(isa, words, byte, shift, dst),
        }
    }
    if words.map != WordMap::None {
        unmap(isa, words, dst);
    }
}

per_isa! {
    fn deposit8(words: Words, plane: &[u8], mask: u8, shift: u32, dst: &mut [u8]) {
        #[inline(always)]
        fn run<T: Word>(plane: &[u8], mask: u8, shift: u32, dst: &mut [u8], _: impl Fn(T) -> T) {
            for (word, &part) in T::chunks_mut(dst).iter_mut().zip(plane) {
                *word = T::from_bytes(*word).with(u16::from(part & mask), shift).to_bytes();
            }
        }
        let words = Words { map: WordMap::None, ..words };
        for_width!(words, run(plane, mask, shift, dst), |w| w, rotate, zigzag)
    }
}

per_isa! {
    fn deposit16(words: Words, plane: &[u16], mask: u16, shift: u32, dst: &mut [u8]) {
        #[inline(always)]
        fn run<T: Word>(plane: &[u16], mask: u16, shift: u32, dst: &mut [u8], _: impl Fn(T) -> T) {
            for (word, &part) in T::chunks_mut(dst).iter_mut().zip(plane) {
                *word = T::from_bytes(*word).with(part & mask, shift).to_bytes();
            }
        }
        let words = Words { map: WordMap::None, ..words };
        for_width!(words, run(plane, mask, shift, dst), |w| w, rotate, zigzag)
    }
}

per_isa! {
    fn deposit_record(
        words: Words,
        bytes: &[u8],
        record: (usize, usize),
        mask: u8,
        shift: u32,
        dst: &mut [u8],
    ) {
        #[inline(always)]
        fn run<T: Word>(
            bytes: &[u8],
            record: (usize, usize),
            mask: u8,
            shift: u32,
            dst: &mut [u8],
            _: impl Fn(T) -> T,
        ) {
            let (len, at) = record;
            for (word, record) in T::chunks_mut(dst).iter_mut().zip(bytes.chunks_exact(len)) {
                *word = T::from_bytes(*word).with(u16::from(record[at] & mask), shift).to_bytes();
            }
        }
        let words = Words { map: WordMap::None, ..words };
        for_width!(words, run(bytes, record, mask, shift, dst), |w| w, rotate, zigzag)
    }
}

per_isa! {
    fn deposit_constant(words: Words, byte: u8, shift: u32, dst: &mut [u8]) {
        #[inline(always)]
        fn run<T: Word>(byte: u8, shift: u32, dst: &mut [u8], _: impl Fn(T) -> T) {
            for word in T::chunks_mut(dst) {
                *word = T::from_bytes(*word).with(u16::from(byte), shift).to_bytes();
            }
        }
        let words = Words { map: WordMap::None, ..words };
        for_width!(words, run(byte, shift, dst), |w| w, rotate, zigzag)
    }
}

per_isa! {
    fn unmap(words: Words, dst: &mut [u8]) {
        #[inline(always)]
        fn run<T: Word>(dst: &mut [u8], unmap: impl Fn(T) -> T) {
            for word in T::chunks_mut(dst) {
                *word = unmap(T::from_bytes(*word)).to_bytes();
            }
        }
        for_width!(words, run(dst), |w| w, unrotate, unzigzag)
    }
}

#[cfg(test)]
mod tests;
