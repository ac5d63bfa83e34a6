//! Names that look like those of the same tensor: copies have a prefix or a suffix more, or one
//! component that is another.

use std::collections::HashMap;

/// Tensors that one lookup returns at most, for each way that names are related.
const FOUND_MAX: usize = 8;

/// Finds the names among many that are related to one: the components of one, between dots, end
/// with those of the other, or all are the same but one that is no number.
#[derive(Debug, Default)]
pub(super) struct Related {
    /// By what of a name two related ones share; numbers in rising order.
    shared: HashMap<(Part, String), Vec<usize>>,
}

/// What of a name is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    All,
    /// What is left when it loses its first components.
    End,
    /// All but one component.
    Others,
}

impl Related {
    /// Adds name number `i`; numbers rise.
    pub(super) fn add(&mut self, i: usize, name: &str) {
        let ends = ends(name).into_iter().map(|end| (Part::End, end));
        let all = [(Part::All, name.to_string())];
        for key in all.into_iter().chain(ends).chain(others(name)) {
            self.shared.entry(key).or_default().push(i);
        }
    }

    /// The numbers below `limit` of related names, the largest first.
    pub(super) fn find(&self, name: &str, limit: usize) -> Vec<usize> {
        let ends = ends(name).into_iter().map(|end| (Part::All, end));
        let all = [(Part::All, name.to_string()), (Part::End, name.to_string())];
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

/// What is left of a name when it loses one or more of its first components.
fn ends(name: &str) -> Vec<String> {
    name.match_indices('.').map(|(dot, _)| name[dot + 1..].to_string()).collect()
}

/// A name without each of its components that is no number: layers are no copies of each other.
fn others(name: &str) -> Vec<(Part, String)> {
    let components: Vec<&str> = name.split('.').collect();
    let is_number = |component: &str| component.bytes().all(|byte| byte.is_ascii_digit());
    let without = |i: usize| {
        let mut others = components.clone();
        others[i] = "*";
        (Part::Others, others.join("."))
    };
    let named = (0..components.len()).filter(|&i| !is_number(components[i]));
    named.filter(|_| components.len() > 1).map(without).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies are found by prefix, suffix and another component; other layers are not.
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
