//! Long test campaigns: how much is tried, and how several processes or machines share it.
//!
//! `LMC_PART=3/16` makes a process do the third of sixteen parts. The parts do not overlap, and
//! together they are the whole, however many there are.

use std::fmt;

/// A number from the environment, for longer runs.
///
/// Panics when the variable is set to something else.
pub fn count(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
        Err(_) => default,
    }
}

/// The part of a campaign that this process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    index: u64,
    parts: u64,
}

impl Part {
    /// From `LMC_PART`; the whole if it is not set.
    ///
    /// Panics if the variable is set to something that is not a part.
    pub fn from_env() -> Self {
        match std::env::var("LMC_PART") {
            Ok(text) => {
                Self::parse(&text).unwrap_or_else(|| panic!("LMC_PART={text} is not as 3/16"))
            }
            Err(_) => Self { index: 0, parts: 1 },
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (number, parts) = text.split_once('/')?;
        let (number, parts): (u64, u64) = (number.parse().ok()?, parts.parse().ok()?);
        (1..=parts).contains(&number).then(|| Self { index: number - 1, parts })
    }

    /// How many of `total` are done in this part.
    pub fn share(self, total: u64) -> u64 {
        let until = |parts| (u128::from(total) * u128::from(parts) / u128::from(self.parts)) as u64;
        until(self.index + 1) - until(self.index)
    }

    /// The numbers from `first` on that belong to this part.
    pub fn numbers(self, first: u64) -> impl Iterator<Item = u64> + Send {
        (first.saturating_add(self.index)..).step_by(self.parts as usize)
    }

    /// Whether a number belongs to this part.
    pub fn has(self, number: u64) -> bool {
        number % self.parts == self.index
    }

    /// A different seed for each part, for tests that use one seed for a whole part.
    pub fn seed(self, seed: u64) -> u64 {
        seed.wrapping_add(self.index)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {} of {}", self.index + 1, self.parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts are counted from one, and nothing else is accepted as a part.
    #[test]
    fn parts_are_parsed() {
        assert_eq!(Part::parse("1/1"), Some(Part { index: 0, parts: 1 }));
        assert_eq!(Part::parse("16/16"), Some(Part { index: 15, parts: 16 }));
        for text in ["", "3", "0/4", "5/4", "1/0", "0/0", "a/4", "1/4/4", "-1/4"] {
            assert_eq!(Part::parse(text), None, "{text}");
        }
    }

    /// All parts together are the whole, and no two overlap.
    #[test]
    fn parts_make_the_whole() {
        for parts in [1, 2, 3, 16, 100] {
            let all: Vec<Part> = (0..parts).map(|index| Part { index, parts }).collect();
            for total in [0, 1, 15, 16, 1000, u64::MAX] {
                let sum: u64 = all.iter().map(|part| part.share(total)).sum();
                assert_eq!(sum, total, "{parts} parts");
            }
            let mut numbers: Vec<u64> = Vec::new();
            for part in &all {
                let own: Vec<u64> = part.numbers(7).take_while(|number| *number < 300).collect();
                assert!(own.iter().all(|number| part.has(number - 7)));
                numbers.extend(own);
            }
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(7..300), "{parts} parts");
        }
    }
}
