//! The timestamps that backends write, as the contract's milliseconds.

/// `2026-02-03T04:05:06Z`, also with fractions of a second or an offset, as milliseconds since 1970 UTC.
/// None for what is no such time, or before 1970.
pub fn rfc3339_ms(text: &str) -> Option<u64> {
    let (date, rest) = text.split_once(['T', 't'])?;
    let mut date = date.splitn(3, '-');
    let (year, month, day) = (number(date.next()?, 4)?, number(date.next()?, 2)?, number(date.next()?, 2)?);
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at_checked(zone)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut clock = clock.splitn(3, ':');
    let (hour, minute, second) =
        (number(clock.next()?, 2)?, number(clock.next()?, 2)?, number(clock.next()?, 2)?);
    let in_range =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    if !in_range {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset(zone)?;
    u64::try_from(seconds * 1000 + milliseconds(fraction)?).ok()
}

/// The same the other way, to the second: `2026-02-03T04:05:06Z`.
pub fn rfc3339(ms: u64) -> String {
    let seconds = ms / 1000;
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    // The inverse of `days`: years that begin in March, in eras of 400.
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn number(text: &str, digits: usize) -> Option<i64> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn milliseconds(fraction: &str) -> Option<i64> {
    if fraction.is_empty() {
        return Some(0);
    }
    let digits: String = fraction.chars().chain("00".chars()).take(3).collect();
    number(&digits, 3)
}

/// Seconds east of UTC.
fn offset(zone: &str) -> Option<i64> {
    let Some((sign, offset)) = zone.split_at_checked(1) else { return Some(0) };
    let sign = match sign {
        "Z" | "z" => return offset.is_empty().then_some(0),
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let (hours, minutes) = offset.split_once(':')?;
    Some(sign * (number(hours, 2)? * 3600 + number(minutes, 2)? * 60))
}

/// Days since 1970-01-01: a year that begins in March puts the leap day last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let month = (month + 9) % 12;
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_to_the_millisecond() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:30:45Z", 951_827_445_000),
            ("2026-02-03T04:05:06Z", 1_770_091_506_000),
            ("2026-02-03T04:05:06.789123Z", 1_770_091_506_789),
            ("2026-02-03T04:05:06.7Z", 1_770_091_506_700),
            ("2026-02-03T06:05:06+02:00", 1_770_091_506_000),
            ("2026-02-02T23:05:06-05:00", 1_770_091_506_000),
        ] {
            assert_eq!(rfc3339_ms(text), Some(ms), "{text}");
        }
    }

    #[test]
    fn a_time_that_is_written_is_read_back() {
        for day in 0..60_000_u64 {
            let ms = day * 86_400_000 + (day * 7_919 % 86_400) * 1_000;
            assert_eq!(rfc3339_ms(&rfc3339(ms)), Some(ms), "{}", rfc3339(ms));
        }
        assert_eq!(rfc3339(951_827_445_999), "2000-02-29T12:30:45Z");
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in
            ["", "now", "2026-02-03", "2026-13-03T04:05:06Z", "2026-02-03T04:05Z", "1969-12-31T23:59:59Z"]
        {
            assert_eq!(rfc3339_ms(text), None, "{text}");
        }
    }
}
