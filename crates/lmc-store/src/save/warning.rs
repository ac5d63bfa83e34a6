//! A problem that was worked around, for the caller to pass on to the user.

use lmc_format::Advice;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A problem that was worked around, in one line, and what would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What happened and what was done about it, in words that fit any user interface.
    pub message: String,
    /// What would help, if known.
    #[serde(serialize_with = "write", deserialize_with = "read", default)]
    pub advice: Option<Advice>,
}

impl Warning {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), advice: None }
    }

    pub(crate) fn with_advice(self, advice: Advice) -> Self {
        Self { advice: Some(advice), ..self }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// By name: lmc-format has no serde, and only partial snapshots carry warnings elsewhere.
fn write<S: Serializer>(advice: &Option<Advice>, to: S) -> Result<S::Ok, S::Error> {
    advice.map(Advice::name).serialize(to)
}

fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Advice>, D::Error> {
    // A partial snapshot is not refused because another version has more kinds of advice.
    let name = Option::<String>::deserialize(from)?;
    Ok(name.and_then(|name| Advice::from_name(&name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A warning reaches the committing process unchanged, with and without advice.
    #[test]
    fn json_there_and_back() {
        let plain = Warning::new("no files");
        for warning in [plain.clone(), plain.with_advice(Advice::FollowLinks)] {
            let text = serde_json::to_string(&warning).unwrap();
            assert_eq!(serde_json::from_str::<Warning>(&text).unwrap(), warning);
        }
        let unknown = r#"{"message": "m", "advice": "AskTheOracle"}"#;
        assert_eq!(serde_json::from_str::<Warning>(unknown).unwrap(), Warning::new("m"));
    }
}
