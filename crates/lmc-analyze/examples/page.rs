//! Makes a page from JSON on stdin, for the tests of the pages: `page analyze|report TITLE`.

use std::io::Write;

use lmc_analyze::page::{Kind, render};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (kind, title) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["analyze", title] => (Kind::Analyze, title),
        ["report", title] => (Kind::Report, title),
        _ => return Err("usage: page analyze|report TITLE < DATA.json > PAGE.html".into()),
    };
    let data = serde_json::from_reader(std::io::stdin().lock())?;
    std::io::stdout().lock().write_all(render(kind, title, &data).as_bytes())?;
    Ok(())
}
