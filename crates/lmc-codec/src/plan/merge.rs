//! Joins neighbours that are alike.

/// Joins neighbours, the cheapest pair first, until there are at most `most` and joining any other
/// pair would cost `least` or more.
pub(super) fn merge<T>(
    items: &mut Vec<T>,
    most: usize,
    least: u64,
    cost: impl Fn(&T, &T) -> u64,
    join: impl Fn(&mut T, T),
) {
    let cost_at = |items: &[T], i: usize| cost(&items[i], &items[i + 1]);
    let pairs = items.len().saturating_sub(1);
    let mut costs: Vec<u64> = (0..pairs).map(|i| cost_at(items, i)).collect();
    while let Some(cheapest) = (0..costs.len()).min_by_key(|&i| costs[i]) {
        if items.len() <= most && costs[cheapest] >= least {
            break;
        }
        let next = items.remove(cheapest + 1);
        join(&mut items[cheapest], next);
        costs.remove(cheapest);
        for i in [cheapest.wrapping_sub(1), cheapest] {
            if i < costs.len() {
                costs[i] = cost_at(items, i);
            }
        }
    }
}
