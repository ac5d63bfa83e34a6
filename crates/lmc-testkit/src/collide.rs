//! Makes different files that have the same XXH3 checksum.
//!
//! XXH3 reads long inputs in stripes of eight words. It XORs each word with a word of the secret
//! and adds the product of the two halves to one sum. It adds the word itself to another sum. The
//! secret is public. If the low half of a word equals that of the secret, the product is 0 whatever
//! the high half is, so the word affects only the other sum. Adding a number to the high half of
//! such a word, and subtracting it from another such word in the same lane, cancels out.

use crate::Random;

/// Bytes from one word of a lane to the next.
const STRIPE_LEN: usize = 64;
/// The low halves of the secret's words for the first lane, in the first two stripes.
const SECRET: [[u8; 4]; 2] = [[0xb8, 0xfe, 0x6c, 0x39], [0x7c, 0x01, 0x81, 0x2c]];
/// The shortest file for which there are collisions.
pub const COLLIDING_LEN_MIN: usize = 256;

/// A file of `len` bytes. With the same length and seed, each number gives a different file with
/// the same XXH3 checksum, and so with the same content hash.
pub fn colliding(len: usize, seed: u64, number: u32) -> Vec<u8> {
    assert!((COLLIDING_LEN_MIN..=1 << 24).contains(&len), "XXH3 hashes others in another way");
    let mut random = Random::new(seed);
    let mut bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
    for (stripe, secret) in SECRET.into_iter().enumerate() {
        let at = stripe * STRIPE_LEN;
        bytes[at..at + 4].copy_from_slice(&secret);
        let high = if stripe == 0 { number } else { 0_u32.wrapping_sub(number) };
        bytes[at + 4..at + 8].copy_from_slice(&high.to_le_bytes());
    }
    bytes
}
