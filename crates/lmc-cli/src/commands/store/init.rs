//! `lmc init`: makes a store.

use std::path::Path;
use std::sync::Arc;

use lmc_store::{Store, SystemClock, storage};
use serde_json::json;

use crate::args::store::InitArgs;
use crate::exit::{self, Exit, Failure};
use crate::stdio::print;

/// Makes a store where `args` says.
pub fn run(args: &InitArgs) -> Exit {
    let location = match args.place.clone().map_or_else(|| args.store.location(), Ok) {
        Ok(location) => location,
        Err(failure) => return exit::report("store".as_ref(), Err(failure)),
    };
    exit::report(Path::new(&location), make(&location, args))
}

fn make(location: &str, args: &InitArgs) -> Result<(), Failure> {
    if args.grace == 0 {
        return Err(Failure::usage("a grace of nothing leaves saves no time; the least is 1s"));
    }
    storage::make_parents(location)?;
    let storage = storage::open(location)?;
    let store = Store::init_with(storage, Arc::new(SystemClock), args.grace / 1000)?;
    if args.json {
        let config = store.config();
        let value = json!({
            "store": location,
            "id": config.id,
            "format": config.format,
            "grace_seconds": config.grace_seconds,
        });
        return print(format!("{value:#}\n"));
    }
    print(format!("made a store at {location}\n"))
}
