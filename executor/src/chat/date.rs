//! `strftime_now`: the date in a template's words.

use minijinja::{Error, ErrorKind, Value};
use std::time::{SystemTime, UNIX_EPOCH};

/// The function `strftime_now(format)` at this time, in UTC. It knows `%a %A %b %B %d %e %H %I %j %m %M %p %S %y %Y %%`, with
/// `-` after the `%` for no leading zero; another directive is an error.
pub(super) fn function(now: SystemTime) -> Value {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Value::from_function(move |format: String| -> Result<String, Error> {
        write(seconds, &format).map_err(|directive| {
            let message = format!("strftime_now does not know `%{directive}`");
            Error::new(ErrorKind::InvalidOperation, message)
        })
    })
}

const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The format filled in for a time in seconds since 1970. Errors: the directive that is not known.
fn write(seconds: u64, format: &str) -> Result<String, String> {
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    let weekday = DAYS[(days % 7) as usize];
    let month_name = MONTHS[(month - 1) as usize];
    let year_start = days_before(year);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut directive = chars.next();
        let plain = directive == Some('-');
        if plain {
            directive = chars.next();
        }
        let number = |value: u64, width: usize| match plain {
            true => value.to_string(),
            false => format!("{value:0width$}"),
        };
        let text = match directive {
            Some('a') => weekday[..3].to_owned(),
            Some('A') => weekday.to_owned(),
            Some('b') => month_name[..3].to_owned(),
            Some('B') => month_name.to_owned(),
            Some('d') => number(day, 2),
            Some('e') => format!("{day:2}"),
            Some('H') => number(hour, 2),
            Some('I') => number((hour + 11) % 12 + 1, 2),
            Some('j') => number(days - year_start + 1, 3),
            Some('m') => number(month, 2),
            Some('M') => number(minute, 2),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('S') => number(second, 2),
            Some('y') => number(year % 100, 2),
            Some('Y') => year.to_string(),
            Some('%') => "%".to_owned(),
            other => return Err(other.map(String::from).unwrap_or_default()),
        };
        out.push_str(&text);
    }
    Ok(out)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Days from 1970-01-01 to the first day of a year from 1970 on.
fn days_before(year: u64) -> u64 {
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    (year - 1970) * 365 + leaps(year - 1) - leaps(1969)
}

/// Year, month from 1 and day from 1 of a day since 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    // The average year is 146,097 / 400 days long; the estimate is off by one at most.
    let mut year = 1970 + (u128::from(days) * 400 / 146_097) as u64;
    while days_before(year) > days {
        year -= 1;
    }
    while days_before(year + 1) <= days {
        year += 1;
    }
    let mut day = days - days_before(year);
    let february = 28 + u64::from(is_leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        let all = "%Y-%m-%d %H:%M:%S %A %a %B %b %j %y %I %p %e %-d %-m %%";
        let at = |seconds| write(seconds, all).unwrap();
        assert_eq!(at(0), "1970-01-01 00:00:00 Thursday Thu January Jan 001 70 12 AM  1 1 1 %");
        // 29 February 2024, 13:05:09.
        assert_eq!(at(1_709_211_909), "2024-02-29 13:05:09 Thursday Thu February Feb 060 24 01 PM 29 29 2 %");
        assert_eq!(write(4_102_444_799, "%Y-%m-%d"), Ok("2099-12-31".into()));
        assert_eq!(write(4_107_542_400, "%d %b %Y"), Ok("01 Mar 2100".into()));
        assert_eq!(write(0, "%Q"), Err("Q".into()));
        assert_eq!(write(0, "%"), Err(String::new()));
    }
}
