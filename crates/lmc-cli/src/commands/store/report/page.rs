//! The page: the data of a report in, HTML out.

use serde_json::Value;

/// A page that shows the data. Nothing in it can end the text that it is in.
pub fn render(data: &Value) -> String {
    let text = format!("{data:#}").replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>lmc report</title>\n<pre>{text}</pre>\n"
    )
}
