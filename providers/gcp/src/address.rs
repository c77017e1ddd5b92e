//! Reserved addresses: which of the entry's is free.
//!
//! They are the project's and stay when an instance goes. Two creates may choose the same one; the insert of the
//! second then fails and looks again.

use provider_sdk::{Context, Error, Http};
use serde_json::Value;

use crate::{api::Api, failure::Trouble, instance::text};

/// A free one of the region's: the address itself.
pub fn free<H: Context + Http>(api: &Api<'_, H>, region: &str) -> Result<String, Error> {
    let names = api.config().reserved.get(region).map(Vec::as_slice).unwrap_or_default();
    let asked = || api.asked(format!("look for a free reserved address in {region}"));
    let mut found: Vec<Value> = Vec::new();
    let mut token = String::new();
    loop {
        let query: Vec<(&str, &str)> =
            Some(("pageToken", token.as_str())).filter(|(_, token)| !token.is_empty()).into_iter().collect();
        let mut answer =
            api.read(&["regions", region, "addresses"], &query).map_err(|trouble| asked().error(&trouble))?;
        if text(&answer, "/kind") != "compute#addressList" {
            return Err(asked().error(&Trouble::Garbled("the answer is no list of addresses".to_owned())));
        }
        if let Some(Value::Array(items)) = answer.get_mut("items").map(Value::take) {
            found.extend(items);
        }
        token = text(&answer, "/nextPageToken");
        if token.is_empty() {
            break;
        }
    }
    let of = |name: &String| found.iter().find(|address| text(address, "/name") == *name);
    let missing: Vec<&str> = names.iter().filter(|name| of(name).is_none()).map(String::as_str).collect();
    let free = names.iter().filter_map(of).find(|address| text(address, "/status") == "RESERVED");
    match free {
        Some(address) => Ok(text(address, "/address")),
        None => {
            let more = if missing.is_empty() {
                String::new()
            } else {
                format!("; these are not there at all: {}", missing.join(", "))
            };
            Err(Error::quota(asked().told(
                &format!("all of {} are in use{more}", names.join(", ")),
                "reserve more and name them in the entry's reservedAddresses",
            )))
        }
    }
}
