//! What a file is for, by its name: weights, the state of the optimizer, or anything else.

use crate::layout::path::RelPath;
use serde::{Deserialize, Serialize};

/// What a file is for. Retention and partial restores depend on it; the stored bytes do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContentKind {
    /// Parameters of a model.
    Weights,
    /// State that is only needed to continue the training: moments, schedules, random numbers.
    Optimizer,
    /// Configuration, tokenizers and the like.
    Other,
}

/// Words that occur only in the names of training state, in the frameworks that write it.
const OPTIMIZER: [&str; 5] = ["optim", "optimizer", "optimizers", "adam", "adamw"];
/// Whole names of training state, without endings and numbers.
const STATES: [&str; 8] = [
    "scheduler",
    "scaler",
    "rng_state",
    "rng_states",
    "random_state",
    "random_states",
    "exp_avg",
    "exp_avg_sq",
];
/// Endings of files that hold tensors.
const TENSORS: [&str; 13] = [
    "safetensors",
    "bin",
    "pt",
    "pth",
    "ckpt",
    "distcp",
    "npz",
    "npy",
    "gguf",
    "onnx",
    "h5",
    "msgpack",
    "pkl",
];

impl ContentKind {
    /// The kind of the file at `path`. Only whole words count. A file that cannot hold tensors is
    /// never training state: nothing else may be left out by mistake.
    pub fn of(path: &RelPath) -> Self {
        let text = path.to_string().to_lowercase();
        let (folders, name) = text.rsplit_once('/').unwrap_or(("", &text));
        let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
        if !TENSORS.contains(&ending) || name == "training_args.bin" {
            Self::Other
        } else if is_state(stem) || folders.split('/').any(is_optimizer_folder) {
            Self::Optimizer
        } else if ending == "pkl" {
            Self::Other
        } else {
            Self::Weights
        }
    }

    /// Its name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Optimizer => "optimizer",
            Self::Other => "other",
        }
    }
}

fn words(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).collect()
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|c| c.is_ascii_digit())
}

/// Whether a file name, without its ending, is the name of training state.
fn is_state(stem: &str) -> bool {
    let words = words(stem);
    let plain: Vec<&str> = words.iter().copied().filter(|word| !is_number(word)).collect();
    words.iter().any(|word| OPTIMIZER.contains(word)) || STATES.contains(&&plain.join("_")[..])
}

/// Whether a whole folder is training state: `optimizer`, `optimizer_0`, `optim_states`.
fn is_optimizer_folder(folder: &str) -> bool {
    let words = words(folder);
    let is_more = |word: &&str| is_number(word) || matches!(*word, "state" | "states");
    words.first().is_some_and(|word| OPTIMIZER.contains(word)) && words[1..].iter().all(is_more)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of the usual frameworks are told apart.
    #[test]
    fn usual_names() {
        let kind = |path: &str| ContentKind::of(&RelPath::new(path.as_bytes()).unwrap());
        for path in ["model.safetensors", "pytorch_model.bin", "__0_0.distcp", "a/mp_rank_00.pt"] {
            assert_eq!(kind(path), ContentKind::Weights, "{path}");
        }
        let states = [
            "optimizer.pt",
            "optimizer.bin",
            "zero_pp_rank_0_optim_states.pt",
            "distrib_optim.pt",
            "rng_state.pth",
            "rng_state_3.pth",
            "random_states_0.pkl",
            "scheduler.pt",
            "scaler.pt",
            "exp_avg_sq.safetensors",
            "adam-m.safetensors",
            "adam_v.safetensors",
            "optimizer_0/__0_0.distcp",
            "a/optimizer/state.pt",
        ];
        for path in states {
            assert_eq!(kind(path), ContentKind::Optimizer, "{path}");
        }
        // Words that only start the same way, and folders that are named for something else.
        let weights = [
            "optimized/model.safetensors",
            "optimus-7b/model.safetensors",
            "policy-optim/model.safetensors",
            "best-optimal/model.safetensors",
            "model_optimized.safetensors",
            "scheduler/model.safetensors",
            "adamantium.bin",
        ];
        for path in weights {
            assert_eq!(kind(path), ContentKind::Weights, "{path}");
        }
        let others = [
            "config.json",
            "tokenizer.json",
            ".metadata",
            "training_args.bin",
            "scheduler/scheduler_config.json",
            "noise_scheduler.py",
            "optimum_config.json",
            "optimizer/notes.txt",
            "trainer_state.json",
        ];
        for path in others {
            assert_eq!(kind(path), ContentKind::Other, "{path}");
        }
    }
}
