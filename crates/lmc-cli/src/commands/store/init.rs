//! `lmc init`: makes a store.

use std::sync::Arc;

use lmc_store::storage::{self, Location};
use lmc_store::{Store, SystemClock};
use serde_json::json;

use crate::args::store::InitArgs;
use crate::exit::{self, Exit, Failure};
use crate::printable::Printable;
use crate::stdio::{Effect, tell};

/// Makes a store where `args` says.
pub fn run(args: &InitArgs) -> Exit {
    let location = match args.place.clone().map_or_else(|| args.store.location(), Ok) {
        Ok(location) => location,
        Err(failure) => return exit::report_at("store", Err(failure)),
    };
    exit::report_at(&location, make(&location, args))
}

fn make(location: &Location, args: &InitArgs) -> Result<(), Failure> {
    if args.grace == 0 {
        return Err(Failure::usage("a grace of nothing leaves saves no time; the least is 1s"));
    }
    storage::make_parents(location.with_secrets())?;
    let storage = storage::open(location.with_secrets())?;
    let store = Store::init_with(storage, Arc::new(SystemClock), args.grace / 1000)?;
    let config = store.config();
    let json = || {
        json!({
            "store": location.to_string(),
            "id": config.id,
            "format": config.format,
            "grace_seconds": config.grace_seconds,
        })
    };
    let text = Printable::line(format_args!("made a store at {location}"));
    tell(Effect::Changed, text, args.json.then(json))
}
