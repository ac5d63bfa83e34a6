//! Names that look like those of the same tensor: a copy has an extra prefix or suffix, or one
//! different component.

use std::collections::HashMap;

/// Most tensors that one lookup returns, for each way that names are related.
const FOUND_MAX: usize = 8;

/// Finds names that are related to a given one. Two names are related if the components of one,
/// which are separated by dots, end with those of the other, or if they differ in just one
/// component that is not a number.
#[derive(Debug, Default)]
pub(super) struct Related {
    /// By the part of a name that two related ones share; the numbers are in rising order.
    shared: HashMap<(NameToken, String), Vec<usize>>,
}

/// The part of a name that is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NameToken {
    All,
    /// The rest after its first components are removed.
    End,
    /// All but one component.
    Others,
}

impl Related {
    /// Adds name number `i`; numbers rise.
    pub(super) fn add(&mut self, i: usize, name: &str) {
        let ends = ends(name).into_iter().map(|end| (NameToken::End, end));
        let all = [(NameToken::All, name.to_string())];
        for key in all.into_iter().chain(ends).chain(others(name)) {
            self.shared.entry(key).or_default().push(i);
        }
    }

    /// The numbers below `limit` of related names, the largest first.
    pub(super) fn find(&self, name: &str, limit: usize) -> Vec<usize> {
        let ends = ends(name).into_iter().map(|end| (NameToken::All, end));
        let all = [(NameToken::All, name.to_string()), (NameToken::End, name.to_string())];
        let mut found: Vec<usize> = Vec::new();
        for key in all.into_iter().chain(ends).chain(others(name)) {
            let Some(sharing) = self.shared.get(&key) else { continue };
            let below = &sharing[..sharing.partition_point(|&i| i < limit)];
            found.extend(below.iter().rev().take(FOUND_MAX));
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.dedup();
        found
    }
}

/// The endings of a name: what is left without one or more of its first components.
fn ends(name: &str) -> Vec<String> {
    name.match_indices('.').map(|(dot, _)| name[dot + 1..].to_string()).collect()
}

/// A name without each of its components in turn, except for numbers: layers are not copies of each
/// other.
fn others(name: &str) -> Vec<(NameToken, String)> {
    let components: Vec<&str> = name.split('.').collect();
    let is_number = |component: &str| component.bytes().all(|byte| byte.is_ascii_digit());
    let without = |i: usize| {
        let mut others = components.clone();
        others[i] = "*";
        (NameToken::Others, others.join("."))
    };
    let named = (0..components.len()).filter(|&i| !is_number(components[i]));
    named.filter(|_| components.len() > 1).map(without).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies are found by prefix, suffix or a different component; other layers are not.
    #[test]
    fn copies_are_related() {
        let names = [
            "model.layers.0.w",
            "model.layers.1.w",
            "ema.model.layers.0.w",
            "model_ema.layers.0.w",
            "model.layers.0.w_ema",
            "layers.0.w",
        ];
        let mut related = Related::default();
        names.iter().enumerate().for_each(|(i, name)| related.add(i, name));
        assert_eq!(related.find("model.layers.0.w", 6), [5, 4, 3, 2, 0]);
        assert_eq!(related.find("model.layers.0.w", 3), [2, 0]);
        assert_eq!(related.find("master.model.layers.1.w", 6), [1]);
        assert!(related.find("other", 6).is_empty());
    }
}
