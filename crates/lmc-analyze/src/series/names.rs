//! What the names of files and folders say: which number is the step, and which files of several
//! steps are the same part of a checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Words before the number of a step.
const STEP_WORDS: [&str; 6] = ["step", "steps", "iter", "iteration", "ckpt", "checkpoint"];
/// Words before the number of a part of a checkpoint, which is never a step.
const PART_WORDS: [&str; 6] = ["rank", "shard", "part", "layer", "layers", "of"];
/// Digits of a number that is probably a step, whatever is before it.
const DIGITS_MIN: usize = 3;
const SEPARATORS: [char; 5] = ['-', '_', '.', ' ', '='];

/// A number in a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    /// Where its digits are.
    pub digits: Range<usize>,
    /// Its value; none if it is too large.
    pub value: Option<u64>,
    /// Whether it numbers the parts of a checkpoint, such as files or ranks.
    is_part: bool,
    /// Whether a word such as `step` is before it.
    is_after_step: bool,
    /// Whether no letters touch it.
    is_word: bool,
}

/// All numbers in a name.
pub(crate) fn numbers(name: &str) -> Vec<Number> {
    let bytes = name.as_bytes();
    let mut found: Vec<Number> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let len = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if len == 0 {
            at += 1;
            continue;
        }
        let digits = at..at + len;
        let before = name[..at].trim_end_matches(SEPARATORS);
        let word_len = before.bytes().rev().take_while(u8::is_ascii_alphabetic).count();
        let word = before[before.len() - word_len..].to_ascii_lowercase();
        let touches = |c: Option<char>| c.is_some_and(char::is_alphabetic);
        let is_word =
            !touches(name[..at].chars().next_back()) && !touches(name[at + len..].chars().next());
        let is_part = PART_WORDS.contains(&word.as_str()) || name[at + len..].starts_with("-of-");
        found.push(Number {
            value: name[digits.clone()].parse().ok(),
            digits,
            is_part,
            is_after_step: STEP_WORDS.contains(&word.as_str()),
            is_word,
        });
        at += len;
    }
    found
}

/// A name with a mark for each number, the same for names that differ only in numbers.
fn template(name: &str, numbers: &[Number]) -> String {
    let mut template = String::new();
    let mut end = 0;
    for number in numbers {
        template += &name[end..number.digits.start];
        // Neither can be part of a name.
        template.push(if number.is_part { '\0' } else { '/' });
        end = number.digits.end;
    }
    template + &name[end..]
}

/// The step in each of these names, if some of them differ only in a number. Where several numbers
/// differ, the step is the one after a word such as `step`, or else the one with the most values,
/// the largest or the first. The others have one of these steps too, or none.
pub(crate) fn steps(names: &[String]) -> Option<Vec<Option<u64>>> {
    // Some checkpoints of a series may be compressed already.
    let names: Vec<&str> =
        names.iter().map(|name| name.strip_suffix(".lmc").unwrap_or(name)).collect();
    let found: Vec<Vec<Number>> = names.iter().map(|name| numbers(name)).collect();
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, name) in names.iter().enumerate() {
        groups.entry(template(name, &found[i])).or_default().push(i);
    }
    let mut steps = vec![None; names.len()];
    for group in groups.values() {
        let values = |place: usize| -> BTreeSet<u64> {
            group.iter().filter_map(|&i| found[i][place].value).collect()
        };
        let first = &found[group[0]];
        let differ = (0..first.len()).filter(|&i| !first[i].is_part && values(i).len() > 1);
        let best = differ.max_by_key(|&i| {
            let values = values(i);
            let largest = values.last().copied();
            (first[i].is_after_step, values.len(), largest, std::cmp::Reverse(i))
        });
        if let Some(place) = best {
            group.iter().for_each(|&i| steps[i] = found[i][place].value);
        }
    }
    let known: BTreeSet<u64> = steps.iter().copied().flatten().collect();
    for (step, numbers) in steps.iter_mut().zip(&found) {
        let mut own = numbers.iter().filter(|number| !number.is_part);
        *step = step.or_else(|| own.find_map(|number| number.value.filter(|n| known.contains(n))));
    }
    (known.len() > 1).then_some(steps)
}

/// The step in the name of a single checkpoint: a number after a word such as `step`, or the only
/// one that is long.
pub(crate) fn step_of(name: &str) -> Option<u64> {
    let numbers: Vec<Number> = numbers(name).into_iter().filter(|number| !number.is_part).collect();
    let after = numbers.iter().rfind(|number| number.is_after_step);
    let mut long =
        numbers.iter().filter(|number| number.is_word && number.digits.len() >= DIGITS_MIN);
    let only = long.next().filter(|_| long.next().is_none());
    after.or(only)?.value
}

/// What tells a file of a checkpoint from the others: its path without the step, the numbers of
/// parts and the extension.
pub(crate) fn key(path: &str, step: Option<u64>) -> String {
    let path = path.strip_suffix(".lmc").unwrap_or(path);
    let path = path.strip_suffix(".safetensors").unwrap_or(path);
    let mut key = String::new();
    let mut end = 0;
    let numbers = numbers(path);
    for (i, number) in numbers.iter().enumerate() {
        let is_count = |number: &Number| path[number.digits.end..].starts_with("-of-");
        let is_of_part = is_count(number) || i > 0 && is_count(&numbers[i - 1]);
        let is_step = !number.is_part && step.is_some() && number.value == step;
        if !is_of_part && !is_step {
            continue;
        }
        let mut before = path[end..number.digits.start].trim_end_matches(SEPARATORS);
        if is_of_part {
            before = before.strip_suffix("-of").unwrap_or(before);
        }
        if is_step && number.is_after_step {
            let word = before.bytes().rev().take_while(u8::is_ascii_alphabetic).count();
            before = before[..before.len() - word].trim_end_matches(SEPARATORS);
        }
        key += before;
        end = number.digits.end;
        if key.is_empty() || key.ends_with('/') {
            end += path[end..].len() - path[end..].trim_start_matches(SEPARATORS).len();
        }
    }
    key += &path[end..];
    key.trim_matches(|c| SEPARATORS.contains(&c) || c == '/').to_string()
}

/// Names of files of other formats that hold tensors end so.
const TENSOR_ENDS: [&str; 9] =
    [".pt", ".pth", ".ckpt", ".bin", ".distcp", ".npz", ".gguf", ".onnx", ".h5"];

/// Whether the name says that the file holds tensors.
pub(crate) fn holds_tensors(name: &str) -> bool {
    let original = name.strip_suffix(".lmc").unwrap_or(name);
    if is_safetensors(name) || TENSOR_ENDS.iter().any(|end| original.ends_with(end)) {
        return true;
    }
    let Some(original) = name.strip_suffix(".lmc") else { return false };
    // `config.json.lmc` does not, and `step1000.lmc` may.
    !original.rsplit_once('.').is_some_and(|(_, end)| end.bytes().all(|b| b.is_ascii_alphabetic()))
}

/// Whether the name says that the original is a safetensors file.
pub(crate) fn is_safetensors(name: &str) -> bool {
    name.strip_suffix(".lmc").unwrap_or(name).ends_with(".safetensors")
}

/// Whether the name is that of an archive.
pub(crate) fn is_archive(name: &str) -> bool {
    name.ends_with(".lmc")
}

/// Whether a file or folder of this name is hidden, or not finished.
pub(crate) fn is_hidden(name: &str) -> bool {
    let ends = [".tmp", ".part", ".partial", ".incomplete", ".lock", ".swp", "~"];
    let starts = [".", "tmp-", "tmp_", "tmp."];
    starts.iter().any(|start| name.starts_with(start)) || ends.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[&str]) -> Option<Vec<Option<u64>>> {
        steps(&names.iter().map(|name| (*name).to_string()).collect::<Vec<_>>())
    }

    /// Names that differ only in a number are those of steps, whatever the number is made of.
    #[test]
    fn names_of_steps() {
        let three = Some(vec![Some(9), Some(10), Some(100)]);
        for names in [
            ["step-9", "step-10", "step-100"],
            ["global_step9", "global_step10", "global_step100"],
            ["0009.safetensors", "0010.safetensors", "0100.safetensors"],
            ["epoch=1-step=9.ckpt", "epoch=2-step=10.ckpt", "epoch=300-step=100.ckpt"],
            ["m1-9", "m1-10", "m1-100"],
        ] {
            assert_eq!(found(&names), three, "{names:?}");
        }
        // Two parts of each of two steps.
        let parts = ["100.1.safetensors", "100.2.safetensors", "200.1.safetensors"];
        assert_eq!(found(&parts), Some(vec![Some(100), Some(100), Some(200)]));
        // Some of the checkpoints are compressed.
        let archives = ["1.safetensors", "2.safetensors.lmc", "3.safetensors"];
        assert_eq!(found(&archives), Some(vec![Some(1), Some(2), Some(3)]));
        // A part that one step alone has, and a file of no step.
        let mixed = ["100.w-bf16.safetensors", "200.w-bf16.safetensors", "100.m.lmc", "last.lmc"];
        assert_eq!(found(&mixed), Some(vec![Some(100), Some(200), Some(100), None]));
    }

    /// Numbers of files, ranks and layers are not steps, and neither are numbers of different
    /// names.
    #[test]
    fn names_of_parts() {
        for names in [
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
            ["rank-0.safetensors", "rank-1.safetensors"],
            ["layer_3.safetensors", "layer_4.safetensors"],
            ["w-bf16.safetensors", "w-fp32.safetensors"],
            ["a.safetensors", "b.safetensors"],
        ] {
            assert_eq!(found(&names), None, "{names:?}");
        }
        assert_eq!(found(&[]), None);
        assert_eq!(found(&["step-1"]), None);
        // Too large for a number.
        assert_eq!(found(&["a99999999999999999999", "a99999999999999999998"]), None);
    }

    /// The step of a single name is one that is plainly a step.
    #[test]
    fn steps_of_single_names() {
        for (name, step) in [
            ("checkpoint-1000", Some(1000)),
            ("run-200/step5.safetensors", Some(5)),
            ("001000.weights-bf16.safetensors", Some(1000)),
            ("llama-3-8b.safetensors", None),
            ("model-00001-of-00004.safetensors", None),
            ("2024-1000-2000", None),
        ] {
            assert_eq!(step_of(name), step, "{name}");
        }
    }

    /// Files that are the same part of different steps have the same key.
    #[test]
    fn keys_of_parts() {
        for (path, step, wanted) in [
            ("001000.adam-m.safetensors", Some(1000), "adam-m"),
            ("step-100.weights.safetensors.lmc", Some(100), "weights"),
            ("step-100/model-00001-of-00004.safetensors", Some(100), "model"),
            ("weights-100/a.safetensors", Some(100), "weights/a"),
            ("model.safetensors", None, "model"),
            ("unet/model_100_ema.safetensors", Some(100), "unet/model_ema"),
            ("100.safetensors", Some(100), ""),
            ("rank-1/model.safetensors", Some(1), "rank-1/model"),
            ("config.json", Some(1), "config.json"),
        ] {
            assert_eq!(key(path, step), wanted, "{path}");
        }
    }

    /// What is hidden or unfinished is left out, and the extension says what holds tensors.
    #[test]
    fn kinds_of_names() {
        for name in [".cache", "a.safetensors.tmp", "tmp-checkpoint-1", "a~", "x.incomplete"] {
            assert!(is_hidden(name), "{name}");
        }
        assert!(!is_hidden("tmpfile.safetensors"));
        let others = ["a.pt", "a.pt.lmc", "__0_0.distcp", "model.gguf"];
        for name in ["a.safetensors", "a.safetensors.lmc", "step1000.lmc", "a.5.lmc"] {
            assert!(holds_tensors(name), "{name}");
        }
        assert!(others.iter().all(|name| holds_tensors(name)));
        for name in ["config.json", "config.json.lmc", "lmc", "pt"] {
            assert!(!holds_tensors(name), "{name}");
        }
    }
}
