//! Quantities: `500m`, `0.5`, `64Mi`.
//!
//! The API server writes them anew: with the largest suffix that leaves a whole number.

use std::fmt;

pub(super) const MALFORMED: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, u32); 7] = [("m", 0), ("", 3), ("k", 6), ("M", 9), ("G", 12), ("T", 15), ("P", 18)];

/// An amount, exact to the thousandth, which remembers how it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Quantity {
    milli: i128,
    binary: bool,
}

impl Quantity {
    pub(super) fn whole(amount: i128) -> Self {
        Self { milli: amount * 1000, binary: false }
    }

    /// None where it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')));
        let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
        let (negative, number) = match number.strip_prefix('-') {
            Some(number) => (true, number),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + part.len() == 0 || whole.len() > 20 {
            return None;
        }
        let digits = |text: &str| match text {
            "" => Some(0),
            text if text.bytes().all(|b| b.is_ascii_digit()) => text.parse::<i128>().ok(),
            _ => None,
        };
        let kept: String = part.chars().take(9).collect();
        let scaled = digits(whole)? * 1_000_000_000 + digits(&format!("{kept:0<9}"))?;
        let found = |of: &[(&str, u32)]| of.iter().find(|(name, _)| *name == suffix).map(|(_, by)| *by);
        let (nano, binary) = match (found(&BINARY), found(&DECIMAL)) {
            (Some(by), _) => (scaled * 1000 * (1_i128 << by), true),
            (None, Some(by)) => (scaled * 10_i128.pow(by), false),
            (None, None) => return None,
        };
        // Less than a thousandth counts as one.
        let milli = nano.div_euclid(1_000_000_000) + i128::from(nano.rem_euclid(1_000_000_000) > 0);
        Some(Self { milli: if negative { -milli } else { milli }, binary })
    }

    pub(super) fn is_negative(self) -> bool {
        self.milli < 0
    }

    pub(super) fn milli(self) -> i128 {
        self.milli
    }

    /// The sum, written as the first is.
    pub(super) fn plus(self, other: Self) -> Self {
        let binary = if self.milli == 0 { other.binary } else { self.binary };
        Self { milli: self.milli + other.milli, binary }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.milli.cmp(&other.milli))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { milli, binary } = *self;
        if milli == 0 {
            return f.write_str("0");
        }
        if binary && milli % 1000 == 0 && (milli / 1000).abs() >= 1024 {
            let whole = milli / 1000;
            let fits = BINARY.iter().rev().find(|(_, by)| whole % (1_i128 << by) == 0);
            if let Some((suffix, by)) = fits {
                return write!(f, "{}{suffix}", whole >> by);
            }
            return write!(f, "{whole}");
        }
        let fits = DECIMAL.iter().rev().find(|(_, by)| milli % 10_i128.pow(*by) == 0);
        let (suffix, by) = fits.copied().unwrap_or(("m", 0));
        write!(f, "{}{suffix}", milli / 10_i128.pow(by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_written_with_the_largest_suffix_that_fits() {
        for (text, written) in [
            ("0.5", "500m"),
            ("1000m", "1"),
            ("2000", "2k"),
            ("1024Mi", "1Gi"),
            ("0.5Gi", "512Mi"),
            ("1.5Gi", "1536Mi"),
            ("64Mi", "64Mi"),
            ("1Ki", "1Ki"),
            ("100Mi", "100Mi"),
            ("50", "50"),
            ("-1", "-1"),
            ("0", "0"),
            ("0.1m", "1m"),
            (".5", "500m"),
        ] {
            assert_eq!(Quantity::parse(text).unwrap().to_string(), written, "{text}");
        }
        for text in ["", "m", "x", "1Zi", "1.2.3", "1 Gi", "--1"] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn quantities_are_compared_by_amount() {
        let parse = |text| Quantity::parse(text).unwrap();
        assert!(parse("500m") < parse("1") && parse("1Gi") > parse("1G"));
        assert_eq!(parse("512Mi").plus(parse("512Mi")).to_string(), "1Gi");
    }
}
