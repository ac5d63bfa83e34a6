//! Literals and repeats (`docs/format.md`, section 5.1, runs).
//!
//! In: bytes, or a reader at the start of their tokens and the place for them. Out: the tokens, or
//! the bytes and the reader after the tokens. Invariants: tokens make exactly the bytes asked for.
//! Four or more equal bytes in a row always become a repeat, and fewer never do.

use lmc_format::{Error, Reader, Result, varint};

/// The shortest run that becomes a repeat: from here on it never loses to literals.
const REPEAT_MIN: usize = 4;

/// A piece of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// Bytes as they are; never empty.
    Literal(&'a [u8]),
    /// A byte and how often it is repeated.
    Repeat(u8, usize),
}

impl Token<'_> {
    /// The number that starts the token in the stream.
    fn head(self) -> u64 {
        match self {
            Self::Literal(bytes) => (bytes.len() as u64 - 1) << 1,
            Self::Repeat(_, count) => (count as u64 - 1) << 1 | 1,
        }
    }
}

/// Cuts bytes into tokens; holds the rest that is not cut yet.
struct Tokens<'a>(&'a [u8]);

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    fn next(&mut self) -> Option<Token<'a>> {
        let &first = self.0.first()?;
        let run = run_length(self.0, first);
        let (len, token) = if run >= REPEAT_MIN {
            (run, Token::Repeat(first, run))
        } else {
            let len = literal_length(self.0);
            (len, Token::Literal(&self.0[..len]))
        };
        self.0 = &self.0[len..];
        Some(token)
    }
}

/// How many bytes at the front are `byte`.
#[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
fn run_length(bytes: &[u8], byte: u8) -> usize {
    let (words, _) = bytes.as_chunks::<8>();
    let whole = 8 * words.iter().take_while(|&&word| word == [byte; 8]).count();
    whole + bytes[whole..].iter().take_while(|&&b| b == byte).count()
}

/// Where the first run that becomes a repeat begins, or the length of `bytes`.
fn literal_length(bytes: &[u8]) -> usize {
    let all_equal = |window: &[u8]| {
        let word = <[u8; REPEAT_MIN]>::try_from(window).map_or(1, u32::from_ne_bytes);
        word == word.rotate_left(8)
    };
    bytes.windows(REPEAT_MIN).position(all_equal).unwrap_or(bytes.len())
}

/// Appends `src` as tokens.
pub(crate) fn encode(src: &[u8], out: &mut Vec<u8>) {
    for token in Tokens(src) {
        varint::write(out, token.head());
        match token {
            Token::Literal(bytes) => out.extend_from_slice(bytes),
            Token::Repeat(byte, _) => out.push(byte),
        }
    }
}

/// Fills `dst` from the tokens at `input`, and leaves `input` after them.
///
/// Fails on tokens that end early, and on a token that makes more bytes than `dst` has room for.
pub(crate) fn decode(input: &mut Reader, dst: &mut [u8]) -> Result<()> {
    let mut rest = dst;
    while !rest.is_empty() {
        let head = input.varint("runs token")?;
        let len = usize::try_from((head >> 1) + 1).unwrap_or(usize::MAX);
        let room = rest.len();
        let Some((place, after)) = rest.split_at_mut_checked(len) else {
            return Err(Error::corrupt(format!("runs token of {len} bytes where {room} are left")));
        };
        if head & 1 == 0 {
            place.copy_from_slice(input.take(len, "runs literals")?);
        } else {
            place.fill(input.u8("runs repeat")?);
        }
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xorshift(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    /// Runs of random bytes, most of them short, some long.
    fn runs(n: usize, state: &mut u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < n {
            let random = xorshift(state);
            let len = if random.is_multiple_of(5) { random >> 8 & 255 } else { random >> 8 & 7 };
            bytes.extend(std::iter::repeat_n((random >> 40) as u8 & 3, len as usize));
        }
        bytes.truncate(n);
        bytes
    }

    fn encoded(src: &[u8]) -> Vec<u8> {
        let mut out = vec![7];
        encode(src, &mut out);
        assert_eq!(out.remove(0), 7);
        out
    }

    fn decoded(stream: &[u8], n: usize) -> Result<Vec<u8>> {
        let mut dst = vec![0x55; n];
        let mut input = Reader::new(stream);
        decode(&mut input, &mut dst)?;
        input.finish("the stream")?;
        Ok(dst)
    }

    /// Every small size and some large ones come back, with runs, without them and as one run. The
    /// estimated cost is the length.
    #[test]
    fn roundtrip_at_many_sizes() {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        for n in (0..=300).chain([4096, 65_535, 100_003]) {
            let noise: Vec<u8> = (0..n).map(|_| xorshift(&mut state) as u8).collect();
            for src in [runs(n, &mut state), noise, vec![0; n]] {
                assert_eq!(decoded(&encoded(&src), n).unwrap(), src);
            }
        }
    }

    /// The bytes are those of the format: literals up to three equal bytes, repeats from four.
    #[test]
    fn tokens_are_as_the_format_says() {
        assert!(encoded(&[]).is_empty());
        assert_eq!(encoded(&[9]), [0, 9]);
        assert_eq!(encoded(&[5, 5, 5]), [4, 5, 5, 5]);
        assert_eq!(encoded(&[5, 5, 5, 5]), [7, 5]);
        assert_eq!(encoded(&[1, 1, 1, 2, 2, 2, 2, 2, 3]), [4, 1, 1, 1, 9, 2, 0, 3]);
        assert_eq!(encoded(&[0; 65]), [0x81, 0x01, 0]);
    }

    /// The reader is left after the tokens.
    #[test]
    fn reader_is_left_after_the_stream() {
        let mut stream = encoded(&[1, 2, 2, 2, 2]);
        stream.extend([8, 9]);
        let mut input = Reader::new(&stream);
        decode(&mut input, &mut [0; 5]).unwrap();
        assert_eq!(input.rest(), [8, 9]);
    }

    /// Every proper prefix of a stream is an error.
    #[test]
    fn truncation_is_an_error() {
        let src = runs(500, &mut 77);
        let stream = encoded(&src);
        for cut in 0..stream.len() {
            assert!(decoded(&stream[..cut], src.len()).is_err());
        }
    }

    /// No single flipped bit makes the decoder panic.
    #[test]
    fn bit_flips_never_panic() {
        let src = runs(500, &mut 78);
        let stream = encoded(&src);
        for bit in 0..stream.len() * 8 {
            let mut wrong = stream.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(decoded(&wrong, src.len()).ok().as_ref(), Some(&src));
        }
    }

    /// A token for more bytes than are left is refused, up to the largest possible one.
    #[test]
    fn tokens_must_fit() {
        for head in [8, 9, 1 << 40, u64::MAX - 1, u64::MAX] {
            let mut stream = Vec::new();
            varint::write(&mut stream, head);
            stream.extend([1; 20]);
            assert!(decode(&mut Reader::new(&stream), &mut [0; 4]).is_err());
        }
    }
}
