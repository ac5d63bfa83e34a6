//! Options that several commands have. Each is defined here alone.

use std::path::PathBuf;

use clap::Args;
use lmc_store::storage::Location;

/// How many threads work.
#[derive(Args, Debug, Default)]
pub struct ThreadArgs {
    /// Number of threads that use the CPU; 0 means one per core
    #[arg(id = "threads", short = 'T', long = "threads", value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub count: u16,
}

/// How many threads work, and with how much memory.
#[derive(Args, Debug, Default)]
pub struct ResourceArgs {
    #[command(flatten)]
    pub threads: ThreadArgs,
    /// About how much memory parts of files may take, such as 256M; 0 means enough to keep all
    /// threads busy. With a bucket, more memory means more concurrent uploads and downloads
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = parse_size)]
    pub memory: u64,
}

/// How the result is printed.
#[derive(Args, Debug)]
pub struct FormatArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Which store is meant.
#[derive(Args, Debug)]
pub struct StoreArgs {
    /// The store: a directory or a URL such as s3://bucket/runs; the default is LMC_STORE
    #[arg(long = "store", value_name = "STORE")]
    pub location: Option<Location>,
}

/// Which snapshot is meant.
#[derive(Args, Debug)]
pub struct SnapshotArgs {
    /// The snapshot: the start of its id, latest, RUN@STEP or RUN@latest
    #[arg(id = "snapshot", value_name = "SNAPSHOT")]
    pub name: String,
}

/// Which snapshots are kept.
#[derive(Args, Debug)]
pub struct KeepArgs {
    /// Keep the newest N of each run
    #[arg(long = "keep-last", value_name = "N")]
    pub last: Option<u64>,
    /// Keep those whose step is a multiple of N
    #[arg(long = "keep-every", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Option<u64>,
    /// Keep those with this tag
    #[arg(long = "keep-tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Keep those saved within this time before the newest of their run, such as 7d
    #[arg(long = "keep-within", value_name = "TIME", value_parser = super::store::parse_time)]
    pub within: Option<u64>,
}

/// What files are or may be coded against.
#[derive(Args, Debug)]
pub struct BaseArgs {
    /// An older checkpoint (raw or .lmc) to compress against, or a directory of them; may be given
    /// several times. Restoring needs it again: given here, or next to the file
    #[arg(long = "base", value_name = "OLD")]
    pub paths: Vec<PathBuf>,
}

/// Limits on what is restored.
#[derive(Args, Debug)]
pub struct LimitArgs {
    /// Refuse larger originals before decoding anything; K, M, G and T are powers of 1024
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub max_size: Option<u64>,
}

/// A number of bytes such as `4096`, `512M` or `10GiB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let shift = match unit {
        "" => Some(0),
        "K" | "k" | "KiB" => Some(10),
        "M" | "m" | "MiB" => Some(20),
        "G" | "g" | "GiB" => Some(30),
        "T" | "t" | "TiB" => Some(40),
        _ => None,
    };
    let number: Option<u64> = number.parse().ok();
    let size = number.zip(shift).and_then(|(number, shift)| number.checked_mul(1 << shift));
    size.ok_or_else(|| {
        "a size is a number of bytes, optionally followed by K, M, G or T (or KiB and so on)".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes have binary units in two spellings. Decimal units and sizes that overflow are refused.
    #[test]
    fn sizes() {
        assert_eq!(parse_size("0"), Ok(0));
        assert_eq!(parse_size("4096"), Ok(4096));
        for text in ["3M", "3m", "3MiB", "3072K", "3072KiB"] {
            assert_eq!(parse_size(text), Ok(3 << 20), "{text}");
        }
        assert_eq!(parse_size("2G"), parse_size("2GiB"));
        assert_eq!(parse_size("1TiB"), Ok(1 << 40));
        for text in ["", "M", "1MB", "1B", "1 M", "-1", "+1", "1.5G", "16777216T", "1é"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
