//! `lmc init`: makes a store.

use std::sync::Arc;

use lmc_store::storage::{self, Access, Location};
use lmc_store::{GRACE_SECONDS_MIN, Store, SystemClock};
use serde_json::json;

use crate::args::store::InitArgs;
use crate::exit::{self, Exit, Failure};
use crate::printable::Printable;
use crate::stdio::{Effect, tell};

/// Makes a store at the location in `args`.
pub fn run(args: &InitArgs) -> Exit {
    let location = match args.place.clone().map_or_else(|| args.store.location(), Ok) {
        Ok(location) => location,
        Err(failure) => return exit::report_at("store", Err(failure)),
    };
    exit::report_at(&location, make(&location, args))
}

fn make(location: &Location, args: &InitArgs) -> Result<(), Failure> {
    if args.grace / 1000 < GRACE_SECONDS_MIN {
        return Err(Failure::usage(
            "a grace period of less than a minute leaves saves no time; use at least 1m, usually \
             24h",
        ));
    }
    let access = if args.shared { Access::Shared } else { Access::Private };
    let storage = storage::open_new(location.with_secrets(), access)?;
    let store = Store::init_with(storage, Arc::new(SystemClock), args.grace / 1000)?;
    let (config, mode) = (store.config(), storage::mode(location.with_secrets()));
    let json = || {
        json!({
            "store": location.to_string(),
            "id": config.id,
            "format": config.format,
            "grace_seconds": config.grace_seconds,
            "mode": mode.map(|mode| format!("{mode:04o}")),
        })
    };
    let text = format!("made a store at {location}{}", access_text(mode));
    tell(Effect::Changed, Printable::line(text), args.format.json.then(json))
}

/// Who may see the contents of a store; for a bucket, its own settings decide.
fn access_text(mode: Option<u32>) -> &'static str {
    match mode {
        None => "",
        Some(mode) if mode & 0o077 == 0 => {
            "; it is private: only you can read it (chmod of the directory shares what is saved \
             later)"
        }
        Some(_) => "; others can read it, as the mode of its directory says",
    }
}
