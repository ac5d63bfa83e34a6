//! What a file is for, by its name: weights, the state of the optimizer, or anything else.

use crate::path::RelPath;
use serde::{Deserialize, Serialize};

/// What a file is for. Retention and partial restores go by it; bytes do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Parameters of a model.
    Weights,
    /// What only going on with the training needs: moments, schedules, random numbers.
    Optimizer,
    /// Configuration, tokenizers and the like.
    Other,
}

/// Parts of names that training state has in the frameworks that write it.
const OPTIMIZER: [&str; 7] =
    ["optim", "exp_avg", "scheduler", "rng_state", "random_states", "scaler.pt", "adam_"];
/// Endings of files that hold tensors.
const TENSORS: [&str; 12] = [
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".ckpt",
    ".distcp",
    ".npz",
    ".npy",
    ".gguf",
    ".onnx",
    ".h5",
    ".msgpack",
];

impl Kind {
    /// The kind of the file at `path`.
    pub fn of(path: &RelPath) -> Self {
        let text = path.to_string().to_lowercase();
        let name = text.rsplit('/').next().unwrap_or_default();
        if OPTIMIZER.iter().any(|part| text.contains(part)) {
            Self::Optimizer
        } else if name != "training_args.bin" && TENSORS.iter().any(|end| name.ends_with(end)) {
            Self::Weights
        } else {
            Self::Other
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of the usual frameworks are told apart.
    #[test]
    fn usual_names() {
        let kind = |path: &str| Kind::of(&RelPath::new(path.as_bytes()).unwrap());
        for path in ["model.safetensors", "pytorch_model.bin", "__0_0.distcp", "a/mp_rank_00.pt"] {
            assert_eq!(kind(path), Kind::Weights, "{path}");
        }
        for path in
            ["optimizer.pt", "zero_pp_rank_0_optim_states.pt", "rng_state.pth", "scheduler.pt"]
        {
            assert_eq!(kind(path), Kind::Optimizer, "{path}");
        }
        for path in ["config.json", "tokenizer.json", ".metadata", "training_args.bin"] {
            assert_eq!(kind(path), Kind::Other, "{path}");
        }
    }
}
