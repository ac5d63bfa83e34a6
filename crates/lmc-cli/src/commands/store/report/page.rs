//! The page: the data of a report in, HTML out.

use serde_json::Value;

/// A page that shows the data. Nothing in it can end the text that it is in.
pub fn render(title: &str, data: &Value) -> String {
    let (title, data) = (escaped(title), escaped(&format!("{data:#}")));
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<pre>{data}</pre>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
