//! The options of `lmc analyze --engines` and `lmc analyze --plan`.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread::available_parallelism;

use clap::{ArgGroup, Args};
use lmc_analyze::engines;
use lmc_analyze::plan::Inputs;

use super::shared::parse_size;
use crate::exit::Failure;

/// Steps between two saves if nothing says how many.
const INTERVAL: u64 = 100;

/// Which other compressors are measured.
#[derive(Args, Debug)]
pub struct EngineArgs {
    /// Measure other compressors on samples: ours, peers, all, or names such as zstd, zstd-19,
    /// lz4, snappy, zlib, brotli, bzip2 and xz
    #[arg(long, value_name = "NAMES", value_delimiter = ',', num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = engines::NAMES)]
    pub engines: Option<Vec<String>>,
    /// How much of a checkpoint --engines and --plan read into memory: a size such as 256M, or all
    #[arg(long, value_name = "BYTES", value_parser = parse_sample, default_value = "64M")]
    pub sample: u64,
}

/// The run that a plan is for.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("storage").args(["bandwidth", "storage_dir"]))]
pub struct PlanArgs {
    /// Work out how often a run can save checkpoints, with and without compression. Needs
    /// --step-time, and --bandwidth or --storage-dir
    #[arg(long, requires_all = ["step_time", "storage"])]
    pub plan: bool,
    /// Seconds of a training step
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, requires = "plan")]
    pub step_time: Option<f64>,
    /// Bytes per second of the storage, such as 2G; K, M, G and T are powers of 1024
    #[arg(long, value_name = "BYTES", value_parser = parse_nonzero_size, requires = "plan")]
    pub bandwidth: Option<u64>,
    /// Measure the speed of the storage by writing a temporary file into this directory
    #[arg(long, value_name = "DIR", requires = "plan")]
    pub storage_dir: Option<PathBuf>,
    /// Cores that compress and decompress; the default is those of this machine
    #[arg(long, value_name = "N", requires = "plan")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub cores: Option<u32>,
    /// Bytes of the state to save; the default is the size of the checkpoint
    #[arg(long, value_name = "BYTES", value_parser = parse_nonzero_size, requires = "plan")]
    pub state_size: Option<u64>,
    /// Steps between two saves; the default is the distance of the checkpoints, or 100
    #[arg(long, value_name = "STEPS", requires = "plan")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub interval: Option<u64>,
    // Those of `lmc forget` have no default.
    /// Keep the newest N
    #[arg(long, value_name = "N", default_value_t = 3, requires = "plan")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub keep_last: u64,
    /// Keep those whose step is a multiple of N; 0 keeps no others
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "plan")]
    pub keep_every: u64,
    /// Store one checkpoint in N whole, and the others as deltas
    #[arg(long, value_name = "N", default_value_t = 8, requires = "plan")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub whole_every: u64,
}

impl EngineArgs {
    /// The names to measure, if any are asked for. Fails in a build that has only ours.
    pub fn names(&self) -> Result<Option<&[String]>, Failure> {
        #[cfg(not(feature = "bench"))]
        if self.engines.is_some() {
            return Err(Failure::new(crate::NO_BENCH).at("--engines"));
        }
        Ok(self.engines.as_deref())
    }
}

impl PlanArgs {
    /// Cores that compress and decompress.
    pub fn cores(&self) -> u32 {
        let all = || available_parallelism().map_or(1, NonZero::get);
        self.cores.unwrap_or_else(|| u32::try_from(all()).unwrap_or(u32::MAX))
    }

    /// The run, from the options and from what was measured: the bytes of a checkpoint, the steps
    /// between two of them, and the speeds of the storage and of a copy.
    pub fn inputs(
        &self,
        checkpoint_bytes: u64,
        distance: Option<u64>,
        bandwidth: f64,
        copy_speed: f64,
    ) -> Inputs {
        Inputs {
            state_bytes: self.state_size.unwrap_or(checkpoint_bytes),
            cores: self.cores(),
            bandwidth,
            copy_speed,
            // Required with --plan; the plan refuses 0.
            step_time: self.step_time.unwrap_or(0.0),
            interval: self.interval.or(distance).unwrap_or(INTERVAL),
            keep_last: self.keep_last,
            keep_every: (self.keep_every > 0).then_some(self.keep_every),
            whole_every: self.whole_every,
        }
    }
}

fn parse_sample(text: &str) -> Result<u64, String> {
    match text {
        "all" => Ok(u64::MAX),
        _ => parse_nonzero_size(text).map_err(|error| format!("{error}; or all")),
    }
}

fn parse_nonzero_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("it must be above 0".into()),
        size => Ok(size),
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|s: &f64| s.is_finite() && *s > 0.0);
    seconds.ok_or_else(|| "a time is a number of seconds above 0".into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Both {
        paths: Vec<String>,
        #[command(flatten)]
        engines: EngineArgs,
        #[command(flatten)]
        plan: PlanArgs,
    }

    fn parsed(args: &str) -> Result<Both, String> {
        Both::try_parse_from(["x"].into_iter().chain(args.split_whitespace()))
            .map_err(|error| error.to_string())
    }

    /// `--engines` takes names only after an equals sign, so that a path may follow it.
    #[test]
    fn engines() {
        let engines = |args: &str| parsed(args).expect("fine").engines.engines;
        assert_eq!(engines("a"), None);
        assert_eq!(engines("--engines a"), Some(vec!["all".to_string()]));
        let two = Some(vec!["zstd-19".to_string(), "ours".to_string()]);
        assert_eq!(engines("--engines=zstd-19,ours a"), two);
        let sample = |args: &str| parsed(args).map(|both| both.engines.sample);
        assert_eq!(sample("a"), Ok(engines::SAMPLE_LEN));
        assert_eq!(sample("--sample 1G"), Ok(1 << 30));
        assert_eq!(sample("--sample all"), Ok(u64::MAX));
        assert!(sample("--sample 0").is_err() && sample("--sample much").is_err());
    }

    /// Only a build with the others accepts names.
    #[test]
    fn engines_need_a_build() {
        let both = parsed("--engines").expect("fine");
        match both.engines.names() {
            Ok(names) => assert!(cfg!(feature = "bench") && names.is_some()),
            Err(failure) => {
                let line = failure.line("analyze").as_str().to_string();
                assert!(!cfg!(feature = "bench") && line.contains("--features bench"), "{line}");
            }
        }
        assert!(parsed("a").expect("fine").engines.names().is_ok_and(|names| names.is_none()));
    }

    /// A plan needs the time of a step and a storage. What it cannot use is refused.
    #[test]
    fn what_a_plan_needs() {
        assert!(!parsed("a").expect("fine").plan.plan);
        assert!(parsed("--plan --step-time 0.8 --bandwidth 2G").is_ok());
        assert!(parsed("--plan --step-time 0.8 --storage-dir /tmp").is_ok());
        let plan = "--plan --step-time 0.8 --bandwidth 2G";
        for wrong in [
            "--plan --step-time 0.8",
            "--plan --bandwidth 2G",
            "--step-time 0.8",
            "--cores 4",
            "--plan --step-time 0 --bandwidth 2G",
            "--plan --step-time -1 --bandwidth 2G",
            "--plan --step-time nan --bandwidth 2G",
            "--plan --step-time 0.8 --bandwidth 0",
            &format!("{plan} --storage-dir /tmp"),
            &format!("{plan} --interval 0"),
            &format!("{plan} --cores 0"),
            &format!("{plan} --state-size 0"),
            &format!("{plan} --whole-every 0"),
            &format!("{plan} --keep-last 0"),
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    /// Options come first, then what was measured, then the defaults.
    #[test]
    fn inputs() {
        let inputs = |args: &str, distance| {
            let args = format!("--plan --step-time 0.8 --bandwidth 2G {args}");
            parsed(&args).expect("fine").plan.inputs(1000, distance, 5.0, 7.0)
        };
        let found = inputs("--keep-every 0 --cores 3", None);
        assert_eq!((found.state_bytes, found.interval, found.cores), (1000, 100, 3));
        assert_eq!((found.bandwidth, found.copy_speed, found.step_time), (5.0, 7.0, 0.8));
        assert_eq!((found.keep_last, found.keep_every, found.whole_every), (3, None, 8));
        let found = inputs("--state-size 1T", Some(250));
        assert_eq!((found.state_bytes, found.interval), (1 << 40, 250));
        assert_eq!(found.keep_every, Some(1000));
        assert!(found.cores > 0);
        assert_eq!(inputs("--interval 7", Some(250)).interval, 7);
    }
}
