//! Parts of tensors, recognized by their names: `weight[0:512,0:64]` is that part of `weight`.

use lmc_input::TensorInfo;

/// A tensor as part of a larger one; it may be the whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Region<'a> {
    /// The name of the larger one.
    pub name: &'a str,
    /// Where it starts in each dimension; empty if it starts at 0 in all.
    starts: Vec<u64>,
}

impl<'a> Region<'a> {
    /// Reads the region from the name of a tensor. If the name has no region that fits the shape,
    /// all of it is the name.
    pub(super) fn of(tensor: &'a TensorInfo) -> Self {
        let whole = || Self { name: &tensor.name, starts: Vec::new() };
        let Some((name, ranges)) = tensor.name.strip_suffix(']').and_then(|s| s.rsplit_once('['))
        else {
            return whole();
        };
        let mut starts = Vec::new();
        for (i, range) in ranges.split(',').enumerate() {
            let ends = range.split_once(':').and_then(|(start, end)| {
                let (start, end) = (number(start)?, number(end)?);
                (tensor.shape.get(i).copied() == end.checked_sub(start)).then_some(start)
            });
            let Some(start) = ends else { return whole() };
            starts.push(start);
        }
        if starts.len() == tensor.shape.len() { Self { name, starts } } else { whole() }
    }

    fn start(&self, dimension: usize) -> u64 {
        self.starts.get(dimension).copied().unwrap_or(0)
    }

    /// The row of the larger tensor that it starts at.
    pub(super) fn row(&self) -> u64 {
        self.start(0)
    }

    /// Starts and sizes of all dimensions but the first: parts that differ in these share no rows.
    pub(super) fn columns(&self, shape: &[u64]) -> Vec<(u64, u64)> {
        let rest = shape.iter().enumerate().skip(1);
        rest.map(|(dimension, &size)| (self.start(dimension), size)).collect()
    }

    /// How many rows of the base come before those of the tensor; none if the base does not hold
    /// all of them contiguously.
    pub(super) fn rows_before(&self, own: &[u64], base: &Self, base_shape: &[u64]) -> Option<u64> {
        let (Some(&rows), Some(&base_rows)) = (own.first(), base_shape.first()) else {
            return (own == base_shape).then_some(0);
        };
        let is_same = own[1..] == base_shape[1..]
            && (1..own.len()).all(|dimension| self.start(dimension) == base.start(dimension));
        let skip = self.start(0).checked_sub(base.start(0)).filter(|_| is_same)?;
        (rows <= base_rows.saturating_sub(skip)).then_some(skip)
    }
}

/// A number in its only accepted spelling: with several spellings, one part could have many names.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmc_format::Dtype;

    fn tensor(name: &str, shape: &[u64]) -> TensorInfo {
        TensorInfo { name: name.into(), dtype: Dtype::F32, shape: shape.to_vec(), range: 0..0 }
    }

    fn skip(own: (&str, &[u64]), base: (&str, &[u64])) -> Option<u64> {
        let (own, base) = (tensor(own.0, own.1), tensor(base.0, base.1));
        let (region, known) = (Region::of(&own), Region::of(&base));
        assert_eq!(region.name, known.name);
        region.rows_before(&own.shape, &known, &base.shape)
    }

    /// Only ranges that fit the shape count.
    #[test]
    fn names() {
        for (name, shape, stem) in [
            ("w[2:5,0:7]", &[3_u64, 7][..], "w"),
            ("a.b[0:4]", &[4], "a.b"),
            ("w[2:5]", &[3, 7], "w[2:5]"),
            ("w[2:5,0:7]", &[3, 8], "w[2:5,0:7]"),
            ("w[5:2]", &[3], "w[5:2]"),
            ("w[]", &[], "w[]"),
            ("w[-1:2]", &[3], "w[-1:2]"),
            ("w]", &[3], "w]"),
            ("w[+2:5]", &[3], "w[+2:5]"),
            ("w[02:5]", &[3], "w[02:5]"),
            ("list[0]", &[3], "list[0]"),
        ] {
            assert_eq!(Region::of(&tensor(name, shape)).name, stem, "{name}");
        }
    }

    /// Rows are found where the base has all of them.
    #[test]
    fn rows() {
        assert_eq!(skip(("w", &[4, 7]), ("w", &[4, 7])), Some(0));
        assert_eq!(skip(("w[2:5,0:7]", &[3, 7]), ("w", &[10, 7])), Some(2));
        assert_eq!(skip(("w[4:6,0:7]", &[2, 7]), ("w[3:6,0:7]", &[3, 7])), Some(1));
        assert_eq!(skip(("w[4:7,0:7]", &[3, 7]), ("w[3:6,0:7]", &[3, 7])), None);
        assert_eq!(skip(("w[2:4,0:7]", &[2, 7]), ("w[3:6,0:7]", &[3, 7])), None);
        assert_eq!(skip(("w[0:4,7:9]", &[4, 2]), ("w[0:4,0:2]", &[4, 2])), None);
        assert_eq!(skip(("w", &[]), ("w", &[])), Some(0));
        assert_eq!(skip(("w", &[]), ("w", &[1])), None);
        // More rows than there were are not held.
        assert_eq!(skip(("w", &[11, 7]), ("w", &[10, 7])), None);
    }
}
