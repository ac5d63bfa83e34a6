//! JSON that is printed while it is made: as a whole, these lists would take many times the memory
//! of their source.

use serde_json::{Map, Value};

use crate::exit::Failure;
use crate::printable::Printable;
use crate::stdio::Pages;

/// Prints an object with the fields `fields` and, as `name`, a list of all `items`. It looks as if
/// it had been printed in one go, `depth` levels deep in another object.
pub fn object(
    pages: &mut Pages,
    depth: usize,
    fields: &Map<String, Value>,
    name: &str,
    items: impl Iterator<Item = Result<Value, Failure>>,
) -> Result<(), Failure> {
    let line = |depth: usize| format!("\n{}", "  ".repeat(depth));
    let mut separator = "{";
    let mut key = |pages: &mut Pages, key: &str| {
        let start = format!("{separator}{}{}: ", line(depth + 1), Value::from(key));
        separator = ",";
        pages.push(Printable::part_of_json(start))
    };
    let (before, after): (Vec<_>, Vec<_>) = fields.iter().partition(|(key, _)| key.as_str() < name);
    for (field, value) in before {
        key(pages, field)?;
        pages.push(indented(value, depth + 1))?;
    }
    key(pages, name)?;
    list(pages, depth + 1, items)?;
    for (field, value) in after {
        key(pages, field)?;
        pages.push(indented(value, depth + 1))?;
    }
    pages.push(Printable::part_of_json(format_args!("{}}}", line(depth))))
}

/// Prints a list of all `items`, `depth` levels deep.
pub fn list(
    pages: &mut Pages,
    depth: usize,
    items: impl Iterator<Item = Result<Value, Failure>>,
) -> Result<(), Failure> {
    let mut array = Array::new(depth);
    for item in items {
        array.next(pages)?;
        pages.push(indented(&item?, depth + 1))?;
    }
    array.end(pages)
}

/// A list that is printed item by item.
pub struct Array {
    depth: usize,
    is_empty: bool,
}

impl Array {
    /// A list that is `depth` levels deep.
    pub fn new(depth: usize) -> Self {
        Self { depth, is_empty: true }
    }

    /// Prints the text before the next item.
    pub fn next(&mut self, pages: &mut Pages) -> Result<(), Failure> {
        let separator = if std::mem::take(&mut self.is_empty) { "[" } else { "," };
        let indent = "  ".repeat(self.depth + 1);
        pages.push(Printable::part_of_json(format_args!("{separator}\n{indent}")))
    }

    /// Prints the end.
    pub fn end(self, pages: &mut Pages) -> Result<(), Failure> {
        let end = match self.is_empty {
            true => "[]".to_string(),
            false => format!("\n{}]", "  ".repeat(self.depth)),
        };
        pages.push(Printable::part_of_json(end))
    }
}

/// A value, indented by `depth` levels. JSON strings contain no line breaks.
fn indented(value: &Value, depth: usize) -> Printable {
    let text = format!("{value:#}").replace('\n', &format!("\n{}", "  ".repeat(depth)));
    Printable::part_of_json(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// JSON that is printed piece by piece is the same as JSON that is printed in one go.
    #[test]
    fn looks_as_if_printed_at_once() {
        let items = [json!({"a": [1, {"b": null}], "c": "x\ny"}), json!([]), json!("z")];
        for count in 0..=items.len() {
            for fields in [json!({}), json!({"a": 1, "z": {"y": [2]}})] {
                let mut whole = fields.clone();
                whole["m"] = items[..count].to_vec().into();
                let mut pages = Pages::default();
                let own = items[..count].iter().cloned().map(Ok);
                let fields = fields.as_object().expect("an object");
                object(&mut pages, 0, fields, "m", own).expect("printed");
                assert_eq!(pages.waiting(), format!("{whole:#}"));
                let mut pages = Pages::default();
                let mut array = Array::new(0);
                for _ in 0..count {
                    array.next(&mut pages).expect("printed");
                    let own = items[..count].iter().cloned().map(Ok);
                    object(&mut pages, 1, fields, "m", own).expect("printed");
                }
                array.end(&mut pages).expect("printed");
                assert_eq!(pages.waiting(), format!("{:#}", Value::from(vec![whole; count])));
            }
        }
    }
}
