// SPDX-License-Identifier: GPL-2.0-only
//! How full a scheduler's pinned maps are, as bpftool sees them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Entries of every pinned hash map below `dir`, by file name; of an array with named fields, the
/// fields called in `fields`, as `MAP.FIELD`.
pub fn census(dir: &Path, fields: &[&str]) -> Result<BTreeMap<String, u64>> {
    let mut census = BTreeMap::new();
    let list = std::fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))?;
    for entry in list {
        let path = entry?.path();
        // Programs and links are pinned beside the maps.
        let Ok(show) = bpftool("show", &path) else {
            continue;
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let kind = show["type"].as_str().unwrap_or_default();
        if kind.contains("hash") {
            let dump = bpftool("dump", &path)?;
            let entries = dump.as_array().context("bpftool did not print a list")?;
            census.insert(name.into_owned(), entries.len() as u64);
        } else if kind == "array" {
            let dump = bpftool("dump", &path)?;
            for field in fields {
                if let Some(value) = find(&dump, field) {
                    census.insert(format!("{name}.{field}"), value);
                }
            }
        }
    }
    ensure!(
        !census.is_empty(),
        "no map with entries to count is pinned below {}",
        dir.display()
    );
    Ok(census)
}

fn bpftool(verb: &str, path: &Path) -> Result<Value> {
    let out = Command::new("bpftool")
        .args(["-j", "map", verb, "pinned"])
        .arg(path)
        .output()
        .context("run bpftool")?;
    let value: Value = serde_json::from_slice(&out.stdout)
        .with_context(|| format!("bpftool map {verb} pinned {}", path.display()))?;
    ensure!(
        value.get("error").is_none(),
        "bpftool map {verb} pinned {}: {value}",
        path.display()
    );
    Ok(value)
}

/// The first number under `field` anywhere in `value`.
fn find(value: &Value, field: &str) -> Option<u64> {
    match value {
        Value::Object(map) => map
            .get(field)
            .and_then(Value::as_u64)
            .or_else(|| map.values().find_map(|v| find(v, field))),
        Value::Array(list) => list.iter().find_map(|v| find(v, field)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_however_deep() {
        let dump = serde_json::json!([{"key": 0, "formatted": {"value":
            {".data.stats": [{"stats": {"nodes": 7, "shared": 0}}]}}}]);
        assert_eq!(find(&dump, "nodes"), Some(7));
        assert_eq!(find(&dump, "shared"), Some(0));
        assert_eq!(find(&dump, "queues"), None);
    }
}
